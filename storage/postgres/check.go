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
		rows, err := q.Query(ctx, fragment("check"), d.names.schema, tableNames(), sequenceName, functionName)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := rows.Scan(&s.version, &s.encoding, &s.isolation, &h.Server, &s.role, &s.schemaExists, &s.schemaUsable, &s.tablesMissing, &s.rightsMissing,
				&s.sequenceExists, &s.sequenceUsable, &s.functionExists, &s.functionExecutable, &h.Clock, &h.Locks); err != nil {
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
	encoding, isolation, product, role string
	schemaExists, schemaUsable         bool
	tablesMissing                      []string
	rightsMissing                      []string // such as "INSERT, DELETE on runlane_runs"
	sequenceExists, sequenceUsable     bool
	functionExists, functionExecutable bool
}

// problem names the first thing that a person has to mend.
func (s *serverState) problem(schema string) error {
	oldest := OldestServer * 10000
	switch {
	case strings.Contains(s.product, "CockroachDB"):
		return configError("this is CockroachDB, which has no advisory locks and refuses several writes to one table in a statement", "use PostgreSQL")
	case s.encoding != "UTF8":
		return configError("the database's encoding is "+s.encoding, "create the database with ENCODING 'UTF8'")
	case s.isolation != "read committed":
		return configError("the default transaction isolation is "+s.isolation, "set default_transaction_isolation to 'read committed' for this role and database")
	case !s.schemaExists:
		return configError(fmt.Sprintf("there is no schema %q", schema), mendMigrate)
	case !s.schemaUsable:
		return configError(fmt.Sprintf("the role %q may not use the schema %q", s.role, schema), mendGrants)
	case len(s.tablesMissing) > 0:
		return configError(fmt.Sprintf("the schema %q lacks the tables %s", schema, strings.Join(s.tablesMissing, ", ")), mendMigrate)
	case !s.sequenceExists:
		return configError("the sequence "+sequenceName+" is missing", mendMigrate)
	case !s.functionExists:
		return configError("the function "+functionName+" is missing", mendMigrate)
	case len(s.rightsMissing) > 0:
		return configError(fmt.Sprintf("the role %q lacks %s", s.role, strings.Join(s.rightsMissing, "; ")), mendGrants)
	case !s.sequenceUsable:
		return configError(fmt.Sprintf("the role %q may not use the sequence %s", s.role, sequenceName), mendGrants)
	case !s.functionExecutable:
		return configError(fmt.Sprintf("the role %q may not execute the function %s", s.role, functionName), mendGrants)
	case s.version < oldest:
		return configError(fmt.Sprintf("the server is PostgreSQL %d", s.version/10000), fmt.Sprintf("use PostgreSQL %d or newer", OldestServer))
	}
	return nil
}

func tableNames() []string {
	var names []string
	for _, c := range storage.Collections() {
		names = append(names, TableName(c))
	}
	return names
}
