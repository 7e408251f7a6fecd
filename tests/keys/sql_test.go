package keys_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage/keys"
)

// TestSQLInt: the expression gives what EncodeInt gives.
func TestSQLInt(t *testing.T) {
	pool := pgtest.New(t, pgtest.Empty()).Pool(t)
	r := rand.New(rand.NewPCG(5, 6))
	values := []int64{math.MinInt64, math.MinInt64 + 1, -1 << 53, -256, -1, 0, 1, 255, 1<<53 + 1, math.MaxInt64 - 1, math.MaxInt64}
	for range 100_000 {
		values = append(values, randomInt(r))
	}
	want := make([]string, len(values))
	for i, n := range values {
		want[i] = keys.EncodeInt(n)
	}
	same(t, want, column(t, pool, `SELECT `+keys.SQLInt("n")+` FROM unnest($1::bigint[]) WITH ORDINALITY AS v(n, place) ORDER BY place`, values))

	// Narrower types, expressions and null.
	require.Equal(t, []string{keys.EncodeInt(-2), keys.EncodeInt(7), keys.EncodeInt(3)},
		column(t, pool, `SELECT unnest(ARRAY[`+keys.SQLInt("(-2)::smallint")+`, `+keys.SQLInt("7::int")+`, `+keys.SQLInt("1 + 2")+`])`))
	var null *string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT `+keys.SQLInt("null::bigint")).Scan(&null))
	require.Nil(t, null)
}

// The microseconds since the Unix epoch for which the expression is exact. It
// begins with timestamptz, in 4714 BC where Julian days begin. It ends one
// before the last microsecond that a bigint counts, in the year 294247: from
// there on extract rounds to fewer digits, though a timestamptz goes on for 29
// years.
const (
	earliest = -210866803200000000
	latest   = math.MaxInt64 - 1
)

// TestSQLTime: the expression gives what EncodeTime gives, to the microsecond
// and to both ends.
func TestSQLTime(t *testing.T) {
	pool := pgtest.New(t, pgtest.Empty()).Pool(t)
	ctx := t.Context()
	r := rand.New(rand.NewPCG(7, 8))
	values := []int64{earliest, earliest + 1, -62135596800000000, -1_000_001, -1_000_000, -999_999, -1, 0, 1, 999_999, 1_000_000,
		1741064767891234, 253402300799999999, 1 << 53, 1<<53 + 1, latest - 1, latest}
	for range 100_000 {
		switch r.IntN(3) {
		case 0: // these decades
			values = append(values, 1_600_000_000_000_000+r.Int64N(800_000_000_000_000))
		case 1:
			values = append(values, r.Int64())
		case 2:
			values = append(values, earliest+r.Int64N(-earliest))
		}
	}
	_, err := pool.Exec(ctx, `CREATE TABLE times (place bigint NOT NULL, at timestamptz NOT NULL)`)
	require.NoError(t, err)
	_, err = pool.CopyFrom(ctx, pgx.Identifier{"times"}, []string{"place", "at"},
		pgx.CopyFromSlice(len(values), func(i int) ([]any, error) { return []any{int64(i), time.UnixMicro(values[i])}, nil }))
	require.NoError(t, err)
	want := make([]string, len(values))
	for i, n := range values {
		want[i], err = keys.EncodeTime(time.UnixMicro(n))
		require.NoError(t, err)
	}
	// The zone of the session does not matter.
	for _, zone := range []string{"UTC", "Asia/Kathmandu", "America/St_Johns"} {
		same(t, want, inZone(t, pool, zone, `SELECT `+keys.SQLTime("at")+` FROM times ORDER BY place`))
	}
	// The order of the texts is the order of the times.
	require.Equal(t, []string{"0"}, column(t, pool, `SELECT count(*)::text FROM (
		SELECT at, lag(at) OVER (ORDER BY `+keys.SQLTime("at")+` COLLATE "C") AS before FROM times) ordered WHERE before > at`))
}

// TestSQLTimeEnds: what is written as text at the ends of the type, and what
// does not fit.
func TestSQLTimeEnds(t *testing.T) {
	pool := pgtest.New(t, pgtest.Empty()).Pool(t)
	for literal, micros := range map[string]int64{
		"4714-11-24 00:00:00+00 BC":         earliest,
		"0001-01-01 00:00:00+00":            time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(),
		"1969-12-31 23:59:59.999999+00":     -1,
		"2025-03-04 05:06:07.891234+00":     1741064767891234,
		"294247-01-10 04:00:54.775806+00":   latest,
		"2025-03-04 06:06:07.891234 +01:00": 1741064767891234,
	} {
		want, err := keys.EncodeTime(time.UnixMicro(micros))
		require.NoError(t, err)
		require.Equal(t, []string{want}, column(t, pool, `SELECT `+keys.SQLTime("timestamptz '"+literal+"'")), literal)
	}
	const numericOutOfRange, featureNotSupported = "22003", "0A000"
	for literal, code := range map[string]string{
		"294247-01-10 04:00:54.775850+00": numericOutOfRange,
		"294276-12-31 23:59:59.999999+00": numericOutOfRange,
		"infinity":                        featureNotSupported,
		"-infinity":                       featureNotSupported,
	} {
		var text string
		err := pool.QueryRow(t.Context(), `SELECT `+keys.SQLTime("timestamptz '"+literal+"'")).Scan(&text)
		var pgErr *pgconn.PgError
		require.True(t, errors.As(err, &pgErr), "%s gives %q, %v", literal, text, err)
		require.Equal(t, code, pgErr.Code, literal)
	}
	// The clock itself, read once: what the statement encodes is what it returns.
	var at time.Time
	var text string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT at, `+keys.SQLTime("at")+` FROM (SELECT clock_timestamp() AS at OFFSET 0) clock`).Scan(&at, &text))
	want, err := keys.EncodeTime(at)
	require.NoError(t, err)
	require.Equal(t, want, text)
	// A mark is replaced as plain bytes.
	sort, err := keys.New().String("q").CommitTime().Text()
	require.NoError(t, err)
	var filled string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT replace($1, E'\x01', `+keys.SQLTime("$2::timestamptz")+`)`, sort, at).Scan(&filled))
	whole, err := keys.New().String("q").Time(at).Text()
	require.NoError(t, err)
	require.Equal(t, whole, filled)
}

// same is Equal for long lists: it shows the first difference alone.
func same(t *testing.T, want, got []string) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i], got[i], "place %d", i)
	}
}

func column(t *testing.T, pool *pgxpool.Pool, query string, args ...any) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), query, args...)
	require.NoError(t, err)
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return texts
}

func inZone(t *testing.T, pool *pgxpool.Pool, zone, query string) (texts []string) {
	t.Helper()
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT set_config('TimeZone', $1, true)`, zone); err != nil {
			return err
		}
		rows, err := tx.Query(t.Context(), query)
		if err != nil {
			return err
		}
		texts, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	}))
	return texts
}
