package postgres

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/seed4391e180/runlane/storage"
)

// maxIdentifier is PostgreSQL's limit for a name; a longer one would be cut silently.
const maxIdentifier = 63

// The objects of a schema that are not tables.
const (
	functionName = "runlane_assert_record_write"
	sequenceName = "runlane_record_versions"
)

// names holds the quoted names of one schema's objects, and the spelling of what
// the driver locks there.
type names struct {
	schema   string // as given
	assert   string
	versions string // as the argument of nextval, within a literal with escapes
	tables   []table
}

// table is how a collection is stored.
type table struct {
	collection storage.Collection
	name       string // quoted, with its schema
	partition  string // the first column of the primary key
	id         string // the second
	indexes    []storage.Index
	document   string // SQL of the whole document of the row r
}

func newNames(schema string) (*names, error) {
	switch {
	case schema == "":
		return nil, configError("the schema name is empty", "name the schema that the migrations were applied to")
	case len(schema) > maxIdentifier:
		return nil, configError(fmt.Sprintf("the schema name has %d bytes", len(schema)), "PostgreSQL allows 63")
	case strings.IndexByte(schema, 0) >= 0 || !utf8.ValidString(schema):
		return nil, configError("the schema name is not valid UTF-8 without NUL", "use another name")
	}
	n := &names{schema: schema, assert: qualified(schema, functionName)}
	n.versions = strings.NewReplacer("'", "''", `\`, `\\`).Replace(qualified(schema, sequenceName))
	for _, c := range storage.Collections() {
		n.tables = append(n.tables, n.table(c))
	}
	return n, nil
}

func qualified(schema, object string) string { return pgx.Identifier{schema, object}.Sanitize() }

func (n *names) table(c storage.Collection) table {
	t := table{
		collection: c,
		name:       qualified(n.schema, TableName(c)),
		partition:  "partition_key",
		id:         "record_id",
		indexes:    storage.IndexesOn(c),
		document:   "r.record_document",
	}
	switch c {
	case storage.Runs:
		t.partition, t.id = "environment_key", "run_id"
		t.document = fill(fragment("document_run"), nil)
	case storage.RunEvents:
		t.partition = "environment_key"
		t.document = fill(fragment("document_event"), holes{"runs": qualified(n.schema, TableName(storage.Runs))})
	}
	return t
}

func (n *names) of(c storage.Collection) *table { return &n.tables[c.Ordinal()] }

// TableName is the name of a collection's table, without its schema.
func TableName(c storage.Collection) string {
	if c == storage.Runs {
		return "runlane_runs"
	}
	return "runlane_record_" + storage.SnakeCase(c.String())
}

// IndexName is the name of the B-tree of a named index.
func IndexName(ix storage.Index) string { return "runlane_" + storage.SnakeCase(ix.String()) }

// indexColumns are the columns of a named index's pair.
func indexColumns(ix storage.Index) (partition, sort string) {
	name := storage.SnakeCase(ix.String())
	return name + "_partition", name + "_sort"
}

// Every lock text begins with its namespace, so that a record and the private key
// of a shared payload never hash the same text, and ends with the schema, so that
// two stores in one database do not wait for each other.

// recordLock is what stands before and behind partition and id in the lock text of
// a collection's records.
func (n *names) recordLock(c storage.Collection) (before, behind string) {
	return "runlane/record/" + c.String() + "/", " " + n.schema
}

// keyLock is the lock text of a record.
func (n *names) keyLock(k storage.Key) string {
	before, behind := n.recordLock(k.Collection)
	return before + k.Partition + k.ID + behind
}

// payloadNamespace begins the lock texts of private keys.
const payloadNamespace = "runlane/payload/"

// payloadLock is the lock text of the private key that guards a payload shared
// by a run and its event with the given sequence.
func (n *names) payloadLock(partition, runID string, sequence int64) string {
	return fmt.Sprintf("%s%s%s#%d %s", payloadNamespace, partition, runID, sequence, n.schema)
}
