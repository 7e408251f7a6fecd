// Package conformance_test proves the PostgreSQL driver with the exported suite, in
// every setting that users have. Settings that have nothing to do with each other
// share a run of the suite, and all but the default one are run briefly: what
// changes with a setting is how statements travel, how names and texts are read, and
// how statements are planned.
package conformance_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage/postgres"
	"github.com/seed4391e180/runlane/storage/storagetest"
)

// TestDefaults is the whole suite, with statements that are prepared once.
func TestDefaults(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, setting{}.world(t).open)
}

// TestSettings connects to the server itself. The fifth exec mode, cache_describe, is
// that of TestPgBouncer, and so is a pool with one connection.
func TestSettings(t *testing.T) {
	t.Parallel()
	for _, s := range []setting{
		{name: "describe_exec, no index scans, the least privileged role, separate commits", config: separate,
			through: leastPrivileged, pool: all(mode(pgx.QueryExecModeDescribeExec), withoutIndexes)},
		{name: "exec, an odd session, an empty search path",
			pool: all(mode(pgx.QueryExecModeExec), oddSession, oddStrings, session("search_path", ""))},
		{name: "simple protocol, an odd session, a schema name with quotes",
			schema: `a"b'c {table} $1`, pool: all(mode(pgx.QueryExecModeSimpleProtocol), oddSession)},
		{name: "an odd session, generic plans, a schema name with backslashes, look-alikes in the search path",
			schema: `back\slash'\`, through: lookAlikes,
			pool: all(oddSession, oddStrings, oddDates, session("plan_cache_mode", "force_generic_plan", "search_path", "hostile, public"))},
	} {
		prove(t, s, storagetest.Options{Brief: true})
	}
}

func separate(*pgtest.DB) postgres.Config { return postgres.Config{SeparateCommits: true} }

// The settings below are those of a session that has nothing as usual. Each alone is
// legal, and somebody has set it for a role or a database.
var (
	oddSession = session(
		"TimeZone", "Asia/Kolkata", "IntervalStyle", "sql_standard", "array_nulls", "off", "bytea_output", "escape",
		"backslash_quote", "on", "extra_float_digits", "-15", "quote_all_identifiers", "on", "transform_null_equals", "on",
		"xmloption", "document", "default_transaction_deferrable", "on", "row_security", "off", "client_min_messages", "debug1",
	)
	// In texts that a client spells itself, a backslash is a letter or it is not. pgx
	// refuses to spell them where it is not.
	oddStrings = session("standard_conforming_strings", "off", "escape_string_warning", "on")
	// pgx reads times that travel as text in one style only.
	oddDates = session("DateStyle", "SQL, DMY")

	// A planner that is talked out of something estimates costs beyond the limit from
	// which statements are compiled, which takes longer than running them.
	withoutIndexes = session("jit", "off", "enable_indexscan", "off", "enable_indexonlyscan", "off", "enable_bitmapscan", "off",
		"enable_nestloop", "off", "enable_material", "off", "enable_memoize", "off")
)
