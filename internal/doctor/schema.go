package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed4391e180/runlane/migrations"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// The objects of the schema that are not tables.
const (
	sequenceName = "runlane_record_versions"
	functionName = "runlane_assert_record_write"
)

type server struct {
	version           int
	product, encoding string
	replica           bool
}

func readServer(ctx context.Context, tx pgx.Tx) (s server, err error) {
	err = queryRow(ctx, tx, "server").Scan(&s.version, &s.product, &s.encoding, &s.replica)
	return s, err
}

func checkServer(ctx context.Context, _ *examination, tx pgx.Tx) (Finding, error) {
	s, err := readServer(ctx, tx)
	if err != nil {
		return Finding{}, err
	}
	return s.finding(), nil
}

func (s server) finding() Finding {
	major := s.version / 10000
	words, _, _ := strings.Cut(s.product, " on ")
	f := Finding{Status: OK, Message: words, Figures: map[string]any{"version": s.version, "major": major}}
	switch {
	case strings.Contains(s.product, "CockroachDB"):
		f.Status, f.Mend = Fail, "use PostgreSQL; this has no advisory locks"
	case major < postgres.OldestServer:
		f.Status, f.Mend = Fail, fmt.Sprintf("use PostgreSQL %d or newer", postgres.OldestServer)
	case s.replica:
		f.Status, f.Message, f.Mend = Fail, words+", a replica", "name the primary; a replica takes no writes"
	case major > postgres.NewestServer:
		f.Status, f.Mend = Warn, fmt.Sprintf("PostgreSQL %d is the newest that this version is tested with", postgres.NewestServer)
	}
	return f
}

func checkEncoding(ctx context.Context, _ *examination, tx pgx.Tx) (Finding, error) {
	s, err := readServer(ctx, tx)
	if err != nil {
		return Finding{}, err
	}
	f := Finding{Status: OK, Message: s.encoding}
	if s.encoding != "UTF8" {
		f.Status, f.Mend = Fail, "create the database with ENCODING 'UTF8'; an encoding cannot be changed"
	}
	return f, nil
}

func checkMigrations(ctx context.Context, e *examination) (Finding, error) {
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		return Finding{}, err
	}
	defer conn.Release()
	o := migrations.Options{Schema: e.Schema}
	state, err := migrations.Status(ctx, conn.Conn(), o)
	if err == nil {
		err = migrations.Verify(ctx, conn.Conn(), o)
	}
	f := Finding{Status: OK, Figures: map[string]any{
		"applied": len(state.Applied), "pending": len(state.Pending), "schema_version": migrations.SchemaVersion}}
	var refused *migrations.Error
	switch {
	case errors.Is(err, migrations.ErrPermission):
		return Finding{Status: Unknown, Message: fmt.Sprintf("the role %q may not read the ledger", e.self),
			Mend: fmt.Sprintf("GRANT SELECT ON %s TO %s; or ask as the role that migrates", quote(e.Schema, "atlas_schema_revisions"), quote(e.self))}, nil
	case errors.As(err, &refused) && refused.Kind != nil:
		f.Status, f.Mend = Fail, refused.Mend
		f.Message = strings.TrimPrefix(strings.Join(nonEmpty(refused.File, refused.Kind.Error(), refused.Detail), ": "), ": ")
		f.Figures["kind"], f.Figures["file"] = Kind(refused), refused.File
		return f, nil
	case err != nil:
		return Finding{}, err
	}
	f.Message = fmt.Sprintf("all %d applied, up to %s", len(state.Applied), state.Applied[len(state.Applied)-1].Name)
	return f, nil
}

func nonEmpty(texts ...string) (some []string) {
	for _, s := range texts {
		if s != "" {
			some = append(some, s)
		}
	}
	return some
}

// kinds are the words for what migrations refuses.
var kinds = []struct {
	err  error
	word string
}{
	{migrations.ErrPending, "pending"}, {migrations.ErrChanged, "changed"}, {migrations.ErrIncomplete, "incomplete"},
	{migrations.ErrMissing, "missing"}, {migrations.ErrReordered, "reordered"}, {migrations.ErrNewer, "newer"},
	{migrations.ErrForeign, "foreign"}, {migrations.ErrLocked, "locked"}, {migrations.ErrPermission, "permission"},
	{migrations.ErrSchemaName, "schema_name"}, {migrations.ErrRoleName, "role_name"},
}

// Kind is the word, in documents that programs read, for an error of package
// migrations: pending, changed, incomplete, missing, reordered, newer, foreign,
// locked, permission, schema_name, role_name; "failed" for any other.
func Kind(err error) string {
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.word
		}
	}
	return "failed"
}

// object is one that the driver needs.
type object struct {
	kind, name string
	present    bool
	lacks      []string // rights that the role does not have
}

func readObjects(ctx context.Context, e *examination, tx pgx.Tx) ([]object, error) {
	rows, err := query(ctx, tx, "objects", e.Schema, tables(), sequenceName, functionName, e.Role)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (o object, err error) {
		err = row.Scan(&o.kind, &o.name, &o.present, &o.lacks)
		return o, err
	})
}

func checkObjects(ctx context.Context, e *examination, tx pgx.Tx) (Finding, error) {
	// The rights are the next check's, and those of the role that asks can be looked up.
	own := *e
	own.Role = e.self
	objects, err := readObjects(ctx, &own, tx)
	if err != nil {
		return Finding{}, err
	}
	var missing []string
	for _, o := range objects {
		if !o.present {
			missing = append(missing, o.kind+" "+o.name)
		}
	}
	f := Finding{Status: OK, Message: fmt.Sprintf("all %d are there", len(objects)),
		Figures: map[string]any{"wanted": len(objects), "missing": len(missing)}}
	switch {
	case len(objects) > 0 && !objects[0].present:
		f.Status, f.Message, f.Mend = Fail, fmt.Sprintf("there is no schema %q", e.Schema), "runlane migrate apply"
	case len(missing) > 0:
		f.Status, f.Message = Fail, "missing: "+list(missing)
		f.Mend = "runlane migrate apply; if nothing is pending, they were dropped since: restore the schema from a backup"
	}
	return f, nil
}

func checkGrants(ctx context.Context, e *examination, tx pgx.Tx) (Finding, error) {
	objects, err := readObjects(ctx, e, tx)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42704" {
		return Finding{Status: Fail, Message: fmt.Sprintf("there is no role %q", e.Role), Mend: "name the role that the application connects as (--role)"}, nil
	}
	if err != nil {
		return Finding{}, err
	}
	var lacking []string
	present, writes := 0, false
	for _, o := range objects {
		if o.present {
			present++
		}
		if len(o.lacks) > 0 {
			lacking = append(lacking, fmt.Sprintf("%s on %s %s", strings.Join(o.lacks, ", "), o.kind, o.name))
		}
		writes = writes || o.present && o.kind == "table" && len(o.lacks) < 3
	}
	f := Finding{Status: OK, Message: fmt.Sprintf("the role %q has all that it needs", e.Role), Figures: map[string]any{"role": e.Role, "lacking": len(lacking)}}
	switch {
	case present == 0:
		f.Status, f.Message, f.Mend = Unknown, "there is nothing to have rights on", "mend what the checks before it found"
	case len(lacking) > 0 && !writes && e.Role == e.self:
		f.Status, f.Message = Unknown, fmt.Sprintf("the role %q writes nothing, so it is not the application's", e.Role)
		f.Mend = "name the application's role (--role)"
	case len(lacking) > 0:
		f.Status, f.Message = Fail, fmt.Sprintf("the role %q lacks %s", e.Role, strings.Join(firstOf(lacking), "; "))
		f.Mend = fmt.Sprintf("runlane migrate grants --schema %s --role %s, and let the schema's owner run what it prints", shell(e.Schema), shell(e.Role))
	}
	return f, nil
}

// shell spells a name as one word of a command line.
func shell(name string) string { return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'" }

func firstOf(items []string) []string {
	const most = 5
	if len(items) > most {
		return append(items[:most:most], fmt.Sprintf("and %d more", len(items)-most))
	}
	return items
}

func checkIndexes(ctx context.Context, e *examination, tx pgx.Tx) (Finding, error) {
	rows, err := query(ctx, tx, "indexes", e.Schema)
	if err != nil {
		return Finding{}, err
	}
	var (
		index, table     string
		unique, building bool
		broken, underway []string
		drop             []string
	)
	_, err = pgx.ForEachRow(rows, []any{&index, &table, &unique, &building}, func() error {
		name := index + " on " + table
		if unique {
			name += " (unique)"
		}
		if building {
			underway = append(underway, name)
			return nil
		}
		broken = append(broken, name)
		drop = append(drop, "DROP INDEX CONCURRENTLY "+quote(e.Schema, index)+";")
		return nil
	})
	f := Finding{Status: OK, Message: "all are valid", Figures: map[string]any{"invalid": len(broken), "building": len(underway)}}
	switch {
	case len(broken) > 0:
		f.Status, f.Message = Fail, "not valid: "+list(broken)
		f.Mend = strings.Join(drop, " ") + " then make it again (runlane migrate apply); it costs every write and serves no read. If a CREATE INDEX CONCURRENTLY is under way, let it finish"
	case len(underway) > 0:
		f.Message = "being built: " + list(underway)
	}
	return f, err
}
