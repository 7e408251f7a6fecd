package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/migrations"
	"github.com/seed4391e180/runlane/storage/postgres"
)

func TestServers(t *testing.T) {
	healthy := server{version: postgres.OldestServer * 10000, product: "PostgreSQL 15.0 on x86", encoding: "UTF8"}
	for name, c := range map[string]struct {
		change func(*server)
		status Status
	}{
		"the oldest":       {func(*server) {}, OK},
		"an older one":     {func(s *server) { s.version-- }, Fail},
		"the newest":       {func(s *server) { s.version = postgres.NewestServer*10000 + 9999 }, OK},
		"a newer one":      {func(s *server) { s.version = (postgres.NewestServer + 1) * 10000 }, Warn},
		"a replica":        {func(s *server) { s.replica = true }, Fail},
		"another database": {func(s *server) { s.product = "CockroachDB CCL v25 on x86" }, Fail},
	} {
		s := healthy
		c.change(&s)
		f := s.finding()
		require.Equal(t, c.status, f.Status, name)
		require.Equal(t, c.status != OK, f.Mend != "", name)
	}
	require.Equal(t, "PostgreSQL 15.0", healthy.finding().Message)
}

func TestAmounts(t *testing.T) {
	for _, c := range []struct {
		value, unit string
		amount      float64
		spelt       string
	}{
		{"1024", "MB", 1 << 30, "1024MB"},
		{"0", "ms", 0, "0"},
		{"30000", "ms", 30000, "30s"},
		{"300", "s", 300_000, "5m0s"},
		{"0.5 s", "ms", 500, "0.5 s"},
		{"2min", "ms", 120_000, "2min"},
		{"90", "", 90, "90"},
		{"off", "", 0, "off"},
		{"", "ms", 0, ""},
	} {
		require.InDelta(t, c.amount, amount(c.value, c.unit), 0, c)
		require.Equal(t, c.spelt, spelt(c.value, c.unit), c)
	}
}

func TestKinds(t *testing.T) {
	require.Equal(t, "newer", Kind(&migrations.Error{Kind: migrations.ErrNewer}))
	require.Equal(t, "failed", Kind(&migrations.Error{}))
	require.Equal(t, "failed", Kind(nil))
}

func TestWorst(t *testing.T) {
	for _, c := range []struct {
		all   []Status
		worst Status
	}{{nil, OK}, {[]Status{OK, Unknown}, Unknown}, {[]Status{Warn, Unknown}, Warn}, {[]Status{Fail, Warn, OK}, Fail}} {
		var findings []Finding
		for _, s := range c.all {
			findings = append(findings, Finding{Status: s})
		}
		require.Equal(t, c.worst, Worst(findings))
	}
}

func TestPlace(t *testing.T) {
	_, _, ok := place("$e!", "@0000000000000000")
	require.False(t, ok)
	_, _, ok = place("$e!$q!#7fffffffffffffff", "no time")
	require.False(t, ok)
}

func TestLists(t *testing.T) {
	require.Equal(t, "a, b", list([]string{"a", "b"}))
	require.Equal(t, "a, b, c, d, e and 2 more", list([]string{"a", "b", "c", "d", "e", "f", "g"}))
	require.Equal(t, "1 run", counted(1, "run"))
	require.Equal(t, `'a'\''b'`, shell("a'b"))
}
