package migrations

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// clientCheck is how often the server looks whether the runner is still there, so
// that one that was killed does not keep its locks until its statement ends.
const clientCheck = time.Second

// limits lets a statement run as long as it must, whatever the role's default, and
// bounds each of its waits for a lock.
func limits(lockWait time.Duration) map[string]string {
	return map[string]string{
		"lock_timeout":                     milliseconds(lockWait),
		"statement_timeout":                "0",
		"transaction_timeout":              "0", // PostgreSQL 17
		"client_connection_check_interval": milliseconds(clientCheck),
	}
}

func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10)
}

// knownSettings leaves out what the server does not know, or cannot do on its platform.
const knownSettings = `(s.name <> 'client_connection_check_interval' OR pg_catalog.version() LIKE '%linux%')`

const readSettings = `SELECT s.name, pg_catalog.current_setting(s.name)
FROM pg_catalog.pg_settings s
WHERE s.name = ANY ($1::text[]) AND ` + knownSettings

const writeSettings = `SELECT pg_catalog.set_config(v.name, v.value, $3::boolean)
FROM ROWS FROM (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[])) AS v (name, value)
JOIN pg_catalog.pg_settings s ON s.name = v.name
WHERE ` + knownSettings

// limitStatements sets the limits of a migration transaction.
func (r *runner) limitStatements(ctx context.Context, tx pgx.Tx) error {
	names, values := pairs(limits(tableTry))
	if _, err := tx.Exec(ctx, writeSettings, r.mode, names, values, true); err != nil {
		return r.wrap(err, "", "set the timeouts", "")
	}
	return nil
}

// setSession gives the session the limits of an index build, and the schema as its
// search path. What it returns puts back what was there.
func (r *runner) setSession(ctx context.Context) (restore func() error, err error) {
	wanted := limits(r.indexWait)
	wanted["search_path"] = searchPath(r.schema)
	wanted["default_transaction_read_only"] = "off"
	wanted["default_transaction_isolation"] = "read committed"
	names, values := pairs(wanted)
	rows, err := r.conn.Query(ctx, readSettings, r.mode, names)
	if err != nil {
		return nil, r.wrap(err, "", "read the settings", "")
	}
	old := map[string]string{}
	var name, value string
	if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		old[name] = value
		return nil
	}); err != nil {
		return nil, r.wrap(err, "", "read the settings", "")
	}
	restore = func() error {
		names, values := pairs(old)
		return r.afterwards(ctx, writeSettings, names, values, false)
	}
	if _, err := r.conn.Exec(ctx, writeSettings, r.mode, names, values, false); err != nil {
		return nil, r.wrap(err, "", "change the settings", "") // a statement that fails changes none
	}
	return restore, nil
}

// pairs is a map as two arrays.
func pairs(m map[string]string) (names, values []string) {
	for name, value := range m {
		names, values = append(names, name), append(values, value)
	}
	return names, values
}
