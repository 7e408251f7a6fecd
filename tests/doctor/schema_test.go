package doctor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/doctor"
	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// A server with its defaults and a database as migrated leave nothing to complain
// about, in whatever schema.
func TestHealthy(t *testing.T) {
	w := newWorld(t, nil)
	for i, schema := range []string{"runlane", `a"b'c {runs} $1`} {
		p := w.patient(t, pgtest.Schema(schema))
		findings := examine(t, p.URL, doctor.Options{Schema: schema})
		requireOnly(t, findings, nil)
		require.EqualValues(t, pgtest.Major(t), findings["server"].Figures["major"])
		require.EqualValues(t, 0, findings["migrations"].Figures["pending"])
		require.EqualValues(t, 0, findings["objects"].Figures["missing"])
		require.EqualValues(t, postgres.DefaultMaxHeldLocks, findings["locks"].Figures["budget"])
		require.Equal(t, "none waits for a worker", findings["runs"].Message)
		require.Len(t, findings["vacuum"].Figures["tables"], 11)
		require.Equal(t, "on", findings["durability"].Figures["fsync"])

		// The application's role is content, too, but for what it may not see.
		name := fmt.Sprintf(`app "%d"`, i)
		app := p.role(t, name, true)
		findings = examine(t, app, doctor.Options{Schema: schema})
		requireOnly(t, findings, map[string]doctor.Status{"migrations": doctor.Unknown, "snapshots": doctor.Unknown})
		for _, f := range []string{"migrations", "snapshots"} {
			require.Regexp(t, `^GRANT .* TO "app ""\d"""`, findings[f].Mend)
		}
		sql(t, p.conn, "GRANT pg_read_all_stats TO \"app \"\""+fmt.Sprint(i)+"\"\"\"; GRANT SELECT ON "+p.in("atlas_schema_revisions")+" TO \"app \"\""+fmt.Sprint(i)+"\"\"\"")
		requireOnly(t, examine(t, app, doctor.Options{Schema: schema}), nil)
		// And so is the owner who asks for it.
		findings = examine(t, p.URL, doctor.Options{Schema: schema, Role: name})
		requireOnly(t, findings, nil)
		require.Equal(t, name, findings["grants"].Figures["role"])
	}
}

func TestNobodyThere(t *testing.T) {
	findings := examine(t, "postgres://127.0.0.1:1/none?connect_timeout=5", doctor.Options{})
	require.Len(t, findings, 1)
	require.Equal(t, doctor.Fail, findings["connection"].Status)
}

// Each of these is one fault of a schema, found by the check that is named and by no
// other.
func TestSchemaFaults(t *testing.T) {
	w := newWorld(t, nil)
	type found = map[string]doctor.Status
	for name, c := range map[string]struct {
		fault string
		found found
		says  []string // messages and mends of the first check found, in any order
	}{
		"a dropped table": {`DROP TABLE {schema}.runlane_record_queue_slots`, found{"objects": doctor.Fail},
			[]string{"missing: table runlane_record_queue_slots", "runlane migrate apply"}},
		"a dropped function": {`DROP FUNCTION {schema}.runlane_assert_record_write`, found{"objects": doctor.Fail},
			[]string{"missing: function runlane_assert_record_write"}},
		"a dropped sequence": {`DROP SEQUENCE {schema}.runlane_record_versions`, found{"objects": doctor.Fail},
			[]string{"missing: sequence runlane_record_versions"}},
		"no table of runs": {`DROP TABLE {schema}.runlane_runs`, found{"objects": doctor.Fail, "runs": doctor.Unknown},
			[]string{"missing: table runlane_runs"}},
		"no schema": {`DROP SCHEMA {schema} CASCADE`, found{"objects": doctor.Fail, "migrations": doctor.Fail, "grants": doctor.Unknown, "runs": doctor.Unknown},
			[]string{`there is no schema "runlane"`, "runlane migrate apply"}},
		"a newer schema": {`INSERT INTO {schema}.atlas_schema_revisions
SELECT '99991231235959', 'later', 2, 1, 1, executed_at, 1, NULL, NULL, 'h', NULL, 'x' FROM {schema}.atlas_schema_revisions LIMIT 1`, found{"migrations": doctor.Fail},
			[]string{"99991231235959_later.sql: database is newer", "deploy a build that has the file"}},
		"an edited file": {`UPDATE {schema}.atlas_schema_revisions SET hash = 'another'`, found{"migrations": doctor.Fail},
			[]string{"migration file was changed", "restore the file"}},
		"an incomplete file": {`UPDATE {schema}.atlas_schema_revisions SET applied = applied - 1`, found{"migrations": doctor.Fail},
			[]string{"migration is incomplete"}},
		"no ledger": {`DROP TABLE {schema}.atlas_schema_revisions`, found{"migrations": doctor.Fail},
			[]string{"schema has a history of its own"}},
		"autovacuum off for a table": {`ALTER TABLE {schema}.runlane_runs SET (autovacuum_enabled = off)`, found{"vacuum": doctor.Warn},
			[]string{"turned off for runlane_runs"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := w.patient(t)
			sql(t, p.conn, replaceSchema(c.fault, p.Schema))
			findings := examine(t, p.URL, doctor.Options{})
			requireOnly(t, findings, c.found)
			requireSays(t, findings, c.says)
		})
	}
}

func TestPending(t *testing.T) {
	w := newWorld(t, nil)
	findings := examine(t, w.patient(t, pgtest.Empty()).URL, doctor.Options{})
	requireOnly(t, findings, map[string]doctor.Status{"migrations": doctor.Fail, "objects": doctor.Fail, "grants": doctor.Unknown, "runs": doctor.Unknown})
	require.Equal(t, "pending", findings["migrations"].Figures["kind"])
	requireSays(t, findings, []string{"migrations are pending", "runlane migrate apply"})
}

func TestGrants(t *testing.T) {
	p := newWorld(t, nil).patient(t)
	app := p.role(t, "app", true)
	sql(t, p.conn, "GRANT pg_read_all_stats TO app; GRANT SELECT ON "+p.in("atlas_schema_revisions")+" TO app")
	for _, c := range []struct{ take, give, says string }{
		{"REVOKE EXECUTE ON FUNCTION %s.runlane_assert_record_write FROM app, PUBLIC", "GRANT EXECUTE ON FUNCTION %s.runlane_assert_record_write TO app",
			`the role "app" lacks EXECUTE on function runlane_assert_record_write`},
		{"REVOKE UPDATE, DELETE ON %s.runlane_runs FROM app", "GRANT UPDATE, DELETE ON %s.runlane_runs TO app",
			`the role "app" lacks UPDATE, DELETE on table runlane_runs`},
		{"REVOKE USAGE ON SEQUENCE %s.runlane_record_versions FROM app", "GRANT USAGE ON SEQUENCE %s.runlane_record_versions TO app",
			`the role "app" lacks USAGE on sequence runlane_record_versions`},
	} {
		sql(t, p.conn, fmt.Sprintf(c.take, p.Schema))
		for _, o := range []struct {
			url  string
			role string
		}{{app, ""}, {p.URL, "app"}} {
			findings := examine(t, o.url, doctor.Options{Role: o.role})
			requireOnly(t, findings, map[string]doctor.Status{"grants": doctor.Fail})
			require.Equal(t, c.says, findings["grants"].Message)
			require.Contains(t, findings["grants"].Mend, "runlane migrate grants --schema 'runlane' --role 'app'")
		}
		sql(t, p.conn, fmt.Sprintf(c.give, p.Schema))
	}
	requireOnly(t, examine(t, app, doctor.Options{}), nil)

	sql(t, p.conn, "REVOKE SELECT ON "+p.in("runlane_runs")+" FROM app")
	requireOnly(t, examine(t, app, doctor.Options{}), map[string]doctor.Status{"grants": doctor.Fail, "runs": doctor.Unknown})

	findings := examine(t, p.URL, doctor.Options{Role: "nobody at all"})
	require.Equal(t, doctor.Fail, findings["grants"].Status)
	require.Equal(t, `there is no role "nobody at all"`, findings["grants"].Message)

	// One who only reads is not the application.
	reader := p.role(t, "reader", false)
	sql(t, p.conn, "GRANT USAGE ON SCHEMA runlane TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA runlane TO reader; GRANT pg_read_all_stats TO reader")
	requireOnly(t, examine(t, reader, doctor.Options{}), map[string]doctor.Status{"grants": doctor.Unknown})
	requireOnly(t, examine(t, reader, doctor.Options{Role: "app"}), map[string]doctor.Status{"grants": doctor.Fail})

	// And one who may do nothing learns what can be learnt.
	stranger := p.role(t, "stranger", false)
	requireOnly(t, examine(t, stranger, doctor.Options{}), map[string]doctor.Status{
		"grants": doctor.Unknown, "migrations": doctor.Unknown, "runs": doctor.Unknown, "snapshots": doctor.Unknown})
}

func TestInvalidIndex(t *testing.T) {
	p := newWorld(t, nil).patient(t)
	p.insertRuns(t, 2)
	_, err := p.conn.Exec(t.Context(), `CREATE UNIQUE INDEX CONCURRENTLY "half ""made" ON runlane.runlane_runs (environment_key)`)
	require.ErrorContains(t, err, "could not create unique index")
	findings := examine(t, p.URL, doctor.Options{})
	requireOnly(t, findings, map[string]doctor.Status{"indexes": doctor.Fail})
	f := findings["indexes"]
	require.Equal(t, `not valid: half "made on runlane_runs (unique)`, f.Message)
	require.EqualValues(t, 1, f.Figures["invalid"])

	const mend = `DROP INDEX CONCURRENTLY "runlane"."half ""made"`
	require.Contains(t, f.Mend, mend+";")
	_, err = p.conn.Exec(t.Context(), mend)
	require.NoError(t, err)
	requireOnly(t, examine(t, p.URL, doctor.Options{}), nil)
}

// An index that is being built is not valid either, and no reason to drop it.
func TestIndexUnderWay(t *testing.T) {
	p := newWorld(t, nil).patient(t)
	writer, builder := connect(t, p.URL), connect(t, p.URL)
	sql(t, writer, "BEGIN; LOCK TABLE runlane.runlane_runs IN ROW EXCLUSIVE MODE")
	built := make(chan error, 1)
	go func() {
		_, err := builder.Exec(t.Context(), `CREATE INDEX CONCURRENTLY slow ON runlane.runlane_runs (updated_at)`)
		built <- err
	}()
	// It waits for the writer: then the index is in the catalog.
	require.Eventually(t, func() (waits bool) {
		err := p.conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_progress_create_index WHERE lockers_total > 0)`).Scan(&waits)
		return err == nil && waits
	}, wait, tick)
	f := examine(t, p.URL, doctor.Options{})["indexes"]
	require.Equal(t, doctor.OK, f.Status, f)
	require.Equal(t, "being built: slow on runlane_runs", f.Message)
	sql(t, writer, "COMMIT")
	require.NoError(t, <-built)
	require.Equal(t, "all are valid", examine(t, p.URL, doctor.Options{})["indexes"].Message)
}

func TestEncoding(t *testing.T) {
	w := newWorld(t, nil)
	p := w.patient(t, pgtest.Empty())
	sql(t, p.conn, "CREATE DATABASE "+p.Name+"_plain TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'")
	t.Cleanup(func() { sql(t, p.conn, "DROP DATABASE "+p.Name+"_plain WITH (FORCE)") })
	findings := examine(t, w.cluster.URL(p.Name+"_plain"), doctor.Options{})
	require.Equal(t, doctor.Fail, findings["encoding"].Status)
	require.Equal(t, "SQL_ASCII", findings["encoding"].Message)
}

// A replica answers every check and is no place to write.
func TestReplica(t *testing.T) {
	w := newWorld(t, map[string]string{"hot_standby": "on"})
	p := w.patient(t)
	var folder string
	require.NoError(t, p.conn.QueryRow(t.Context(), "SHOW data_directory").Scan(&folder))
	require.NoError(t, w.cluster.Halt(t.Context(), pgtest.Fast))
	signal := filepath.Join(folder, "standby.signal")
	require.NoError(t, os.WriteFile(signal, nil, 0o644))
	require.NoError(t, w.cluster.Resume(t.Context()))
	findings := examine(t, p.URL, doctor.Options{})
	requireOnly(t, findings, map[string]doctor.Status{"server": doctor.Fail})
	if pgtest.Major(t) >= postgres.OldestServer {
		require.Contains(t, findings["server"].Message, "a replica")
	}

	require.NoError(t, os.Remove(signal))
	require.NoError(t, w.cluster.Restart(t.Context(), pgtest.Fast))
	requireOnly(t, examine(t, p.URL, doctor.Options{}), nil)
}
