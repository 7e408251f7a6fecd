package migrations

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrRoleName means that the role given to [Grants] cannot be the name of a role.
var ErrRoleName = errors.New("invalid role name")

// grantedTables are the tables that a driver reads and writes: one for each
// collection of records. The ledger is not among them, it is the migrating role's.
var grantedTables = []string{
	"runlane_runs",
	"runlane_record_run_events",
	"runlane_record_run_event_id_owners",
	"runlane_record_run_completion_wait_presence",
	"runlane_record_idempotency_owners",
	"runlane_record_singleton_owners",
	"runlane_record_queue_slots",
	"runlane_record_schedule_occurrences",
	"runlane_record_schedule_cursors",
	"runlane_record_observation_heads",
	"runlane_record_observation_records",
}

// Grants returns the statements that give a role what a driver needs of the
// schema ([DefaultSchema] if empty), and nothing else: the use of the schema, rows of
// each of its tables, the sequence of record versions, and the function that checks
// writes. Every right is needed; a driver whose role lacks one fails with an error
// that names it.
//
// The statements are for a migrated schema and are run by its owner. Each can be
// run again. A later migration that adds a table, a sequence or a function makes
// it necessary to do so. Beyond them the role needs to be able to connect to
// the database, which PUBLIC may unless somebody has revoked it. The tables are named
// one by one: ALL TABLES would take in the ledger, and whatever else the schema holds.
//
// The error is an [*Error], [ErrSchemaName] or [ErrRoleName].
func Grants(schema, role string) ([]string, error) {
	to, in, err := grantees(schema, role)
	if err != nil {
		return nil, err
	}
	grants := []string{"GRANT USAGE ON SCHEMA " + in("") + to}
	for _, table := range grantedTables {
		grants = append(grants, "GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE "+in(table)+to)
	}
	return append(grants,
		"GRANT USAGE ON SEQUENCE "+in("runlane_record_versions")+to,
		"GRANT EXECUTE ON FUNCTION "+in("runlane_assert_record_write")+"(boolean, text)"+to,
	), nil
}

// readTables are the tables that operator reads are answered from.
var readTables = []string{"runlane_runs", "runlane_record_run_events"}

// OperatorGrants returns the statements that give a role what the operator reads of
// a driver need (GetRun, ListRuns, ListEvents, CountRuns), and nothing else: the use of
// the schema, and reading runs and events. Payloads and results are among what it
// reads. All that [Grants] says of statements, roles and errors holds here.
func OperatorGrants(schema, role string) ([]string, error) {
	to, in, err := grantees(schema, role)
	if err != nil {
		return nil, err
	}
	grants := []string{"GRANT USAGE ON SCHEMA " + in("") + to}
	for _, table := range readTables {
		grants = append(grants, "GRANT SELECT ON TABLE "+in(table)+to)
	}
	return grants, nil
}

// grantees checks the names and returns the end of each statement, and what quotes an
// object of the schema, or for "" the schema.
func grantees(schema, role string) (to string, in func(object string) string, err error) {
	if schema == "" {
		schema = DefaultSchema
	}
	if err := checkSchemaName(schema); err != nil {
		return "", nil, err
	}
	if err := checkRoleName(schema, role); err != nil {
		return "", nil, err
	}
	return " TO " + quote(role), func(object string) string {
		if object == "" {
			return quote(schema)
		}
		return quote(schema) + "." + quote(object)
	}, nil
}

// checkRoleName refuses what cannot be a role, or is a word that stands for none.
func checkRoleName(schema, role string) error {
	refuse := func(detail string) error {
		return &Error{Kind: ErrRoleName, Schema: schema, Detail: detail, Mend: "name the role that the program connects as"}
	}
	switch {
	case role == "":
		return refuse("there is no name")
	case len(role) > maxIdentifier:
		return refuse(fmt.Sprintf("it has %d bytes, PostgreSQL keeps %d", len(role), maxIdentifier))
	case !utf8.ValidString(role) || strings.ContainsRune(role, 0):
		return refuse("it is not text that PostgreSQL can store")
	case role == "public" || role == "none":
		return refuse(fmt.Sprintf("%q cannot be the name of a role", role))
	}
	return nil
}
