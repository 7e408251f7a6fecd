package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// Health is what Check saw.
type Health struct {
	Server string    // the server's own words
	Clock  time.Time // the database's clock
	Locks  int       // nominal capacity of the lock table that all sessions share
}

// Check asks whether the database is fit for the driver: version, encoding,
// isolation, schema and privileges. It also adapts Config.MaxHeldLocks, if that is
// 0, to the server. Nothing else asks; a driver works, or fails with
// the same errors, without it. Errors: ErrConfiguration that says the mend,
// ErrUnavailable.
func (d *Driver) Check(ctx context.Context) (Health, error) {
	var (
		h Health
		s serverState
	)
	err := d.read(ctx, func(q querier) error {
		rows, err := q.Query(ctx, fragment("check"), d.names.schema, d.names.assert, qualified(d.names.schema, "runlane_record_versions"),
			d.names.of(storage.Runs).name, d.names.of(storage.RunEvents).name)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := rows.Scan(&s.version, &s.encoding, &s.isolation, &h.Server, &s.schemaUsable, &s.schemaExists, &s.tablesExist,
				&s.tablesWritable, &s.functionExists, &s.functionExecutable, &s.sequenceUsable, &h.Clock, &h.Locks); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	if err != nil {
		return Health{}, err
	}
	s.product, h.Clock = h.Server, h.Clock.UTC()
	if d.config.MaxHeldLocks == 0 {
		d.budget.resize(h.Locks / 2)
	}
	return h, s.problem(d.names.schema)
}

type serverState struct {
	version                            int
	encoding, isolation, product       string
	schemaUsable, schemaExists         bool
	tablesExist, tablesWritable        bool
	functionExists, functionExecutable bool
	sequenceUsable                     bool
}

// problem names the first thing that a person has to mend.
func (s *serverState) problem(schema string) error {
	oldest := OldestServer * 10000
	switch {
	case strings.Contains(s.product, "CockroachDB"):
		return configError("this is CockroachDB, which has no advisory locks and refuses several writes to one table in a statement", "use PostgreSQL")
	case s.version < oldest:
		return configError(fmt.Sprintf("the server is PostgreSQL %d", s.version/10000), fmt.Sprintf("use PostgreSQL %d or newer", OldestServer))
	case s.encoding != "UTF8":
		return configError("the database's encoding is "+s.encoding, "create the database with ENCODING 'UTF8'")
	case s.isolation != "read committed":
		return configError("the default transaction isolation is "+s.isolation, "set default_transaction_isolation to 'read committed' for this role and database")
	case !s.schemaExists:
		return configError(fmt.Sprintf("there is no schema %q", schema), mendMigrate)
	case !s.schemaUsable:
		return configError(fmt.Sprintf("this role may not use the schema %q", schema), "GRANT USAGE ON SCHEMA to it")
	case !s.tablesExist:
		return configError(fmt.Sprintf("the schema %q has no runlane tables", schema), mendMigrate)
	case !s.tablesWritable:
		return configError("this role may not read and write the runlane tables", "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA to it")
	case !s.functionExists:
		return configError("the function runlane_assert_record_write is missing", mendMigrate)
	case !s.functionExecutable:
		return configError("this role may not execute runlane_assert_record_write", "GRANT EXECUTE ON FUNCTION to it")
	case !s.sequenceUsable:
		return configError("this role may not use the sequence runlane_record_versions", "GRANT USAGE ON SEQUENCE to it")
	}
	return nil
}
