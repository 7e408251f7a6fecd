package doctor_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/doctor"
	"github.com/seed4391e180/runlane/internal/pgtest"
)

// Each setting in turn is what it should not be, and the mend that is printed mends it.
func TestSettings(t *testing.T) {
	p := newWorld(t, map[string]string{"max_connections": "100"}).patient(t)
	for _, c := range []struct {
		check   string
		status  doctor.Status
		setting string
		value   string
		local   bool
		since   int // the major version that brought it
	}{
		{"durability", doctor.Fail, "fsync", "off", false, 0},
		{"durability", doctor.Fail, "full_page_writes", "off", false, 0},
		{"durability", doctor.Warn, "synchronous_commit", "off", true, 0},
		{"autovacuum", doctor.Warn, "autovacuum", "off", false, 0},
		{"autovacuum", doctor.Warn, "track_counts", "off", false, 0},
		{"isolation", doctor.Fail, "default_transaction_isolation", "repeatable read", true, 0},
		{"isolation", doctor.Fail, "default_transaction_read_only", "on", true, 0},
		{"timeouts", doctor.Warn, "statement_timeout", "999ms", true, 0},
		{"timeouts", doctor.Warn, "transaction_timeout", "9s", true, 17},
		{"timeouts", doctor.Warn, "idle_session_timeout", "29s", true, 0},
		{"checkpoints", doctor.Warn, "max_wal_size", "1023MB", false, 0},
		{"checkpoints", doctor.Warn, "checkpoint_timeout", "4min", false, 0},
	} {
		if pgtest.Major(t) < c.since {
			continue // this server cannot have it
		}
		t.Run(c.setting, func(t *testing.T) {
			if c.local {
				sql(t, p.conn, fmt.Sprintf("ALTER ROLE runlane SET %s = '%s'", c.setting, c.value))
				defer sql(t, p.conn, "ALTER ROLE runlane RESET ALL")
			} else {
				sql(t, p.conn, fmt.Sprintf("ALTER SYSTEM SET %s = '%s'", c.setting, c.value))
				reload(t, p, c.setting)
			}
			findings := examine(t, p.URL, doctor.Options{})
			requireOnly(t, findings, map[string]doctor.Status{c.check: c.status})
			require.Contains(t, findings[c.check].Message, c.setting+" is ")
			require.Contains(t, findings[c.check].Figures, c.setting)

			mender := connect(t, p.URL) // which has the setting
			for _, mend := range statements(findings[c.check].Mend) {
				sql(t, mender, mend)
			}
			if !c.local {
				reload(t, p, c.setting)
			}
			requireOnly(t, examine(t, p.URL, doctor.Options{}), nil)
			if c.local {
				sql(t, p.conn, "ALTER ROLE runlane IN DATABASE "+p.Name+" RESET ALL")
			}
		})
	}
}

// The settings of a role are those that its sessions begin with, whoever asks.
func TestSettingsOfARole(t *testing.T) {
	p := newWorld(t, nil).patient(t)
	app := p.role(t, "app", true)
	sql(t, p.conn, "GRANT pg_read_all_stats TO app; GRANT SELECT ON "+p.in("atlas_schema_revisions")+" TO app")
	for _, c := range []struct {
		alter    string
		app, own doctor.Status
		says     string
	}{
		{"ALTER ROLE app SET statement_timeout = '0.5 s'", doctor.Warn, doctor.OK, "0.5 s"},
		{"ALTER ROLE app SET statement_timeout = '2s'", doctor.OK, doctor.OK, "2s"},
		{"ALTER DATABASE {database} SET statement_timeout = '100'", doctor.OK, doctor.Warn, "2s"},
		{"ALTER ROLE app IN DATABASE {database} SET statement_timeout = 20", doctor.Warn, doctor.Warn, "20"},
		{"ALTER ROLE app IN DATABASE {database} RESET ALL; ALTER ROLE app RESET ALL", doctor.Warn, doctor.Warn, "100"},
		{"ALTER DATABASE {database} RESET ALL; ALTER ROLE runlane SET statement_timeout = '900ms'", doctor.OK, doctor.Warn, "0"},
	} {
		sql(t, p.conn, strings.ReplaceAll(c.alter, "{database}", p.Name))
		requireOnly(t, examine(t, app, doctor.Options{}), map[string]doctor.Status{"timeouts": c.app})
		requireOnly(t, examine(t, p.URL, doctor.Options{}), map[string]doctor.Status{"timeouts": c.own})
		findings := examine(t, p.URL, doctor.Options{Role: "app"})
		requireOnly(t, findings, map[string]doctor.Status{"timeouts": c.app})
	}
}

// reload waits until new sessions see what the file of settings says.
func reload(t *testing.T, p *patient, setting string) {
	t.Helper()
	sql(t, p.conn, "SELECT pg_reload_conf()")
	require.Eventually(t, func() (seen bool) {
		const sql = `SELECT NOT EXISTS (SELECT FROM pg_file_settings f JOIN pg_settings s USING (name)
WHERE name = $1 AND f.applied AND f.setting <> current_setting(name) AND f.seqno = (SELECT max(seqno) FROM pg_file_settings WHERE name = $1))`
		conn := connect(t, p.URL)
		defer conn.Close(t.Context())
		return conn.QueryRow(t.Context(), sql, setting).Scan(&seen) == nil && seen
	}, wait, tick)
}

// statements are the parts of a mend, which must not share an implicit transaction.
func statements(mend string) (parts []string) {
	for start, i := 0, 0; i < len(mend); i++ {
		if mend[i] == ';' {
			parts = append(parts, mend[start:i])
			start = i + 1
		}
	}
	return parts
}
