package conformance_test

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/migrations"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/keys"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// role is a role of a test's own, which owns nothing and may do nothing but log in
// to the test's database: PUBLIC's rights are revoked.
type role struct {
	name, quoted string
	db           *pgtest.DB // as the role sees it
	owner        *pgx.Conn
}

func newRole(t *testing.T, db *pgtest.DB) *role {
	t.Helper()
	owner, err := pgx.Connect(t.Context(), db.URL)
	require.NoError(t, err)
	t.Cleanup(func() { owner.Close(context.Background()) })
	r := &role{name: db.Name + ` app "role"`, owner: owner}
	r.quoted = pgx.Identifier{r.name}.Sanitize()
	schema, database := pgx.Identifier{db.Schema}.Sanitize(), pgx.Identifier{db.Name}.Sanitize()
	const password = "secret"
	r.exec(t, "CREATE ROLE "+r.quoted+" LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD '"+password+"'")
	t.Cleanup(func() { r.exec(t, "DROP OWNED BY "+r.quoted+"; DROP ROLE "+r.quoted) })
	r.exec(t, "REVOKE ALL ON DATABASE "+database+" FROM PUBLIC")
	r.exec(t, "GRANT CONNECT ON DATABASE "+database+" TO "+r.quoted)
	for _, s := range []string{schema, "public"} {
		r.exec(t, "REVOKE ALL ON SCHEMA "+s+" FROM PUBLIC")
		for _, kind := range []string{"TABLES", "SEQUENCES", "FUNCTIONS"} {
			r.exec(t, "REVOKE ALL ON ALL "+kind+" IN SCHEMA "+s+" FROM PUBLIC")
		}
	}
	u, err := url.Parse(db.URL)
	require.NoError(t, err)
	u.User = url.UserPassword(r.name, password)
	r.db = &pgtest.DB{Name: db.Name, URL: u.String(), Schema: db.Schema}
	return r
}

func (r *role) exec(t *testing.T, sql string) {
	t.Helper()
	_, err := r.owner.PgConn().Exec(context.Background(), sql).ReadAll()
	require.NoError(t, err, sql)
}

// leastPrivileged is the way to the database of a role that has what the command
// "runlane migrate grants" prints, and nothing else.
func leastPrivileged(t *testing.T, db *pgtest.DB) *pgtest.DB {
	t.Helper()
	r := newRole(t, db)
	grants, err := migrations.Grants(db.Schema, r.name)
	require.NoError(t, err)
	for _, grant := range grants {
		r.exec(t, grant)
	}
	return r.db
}

// grant is a statement of migrations.Grants.
var grant = regexp.MustCompile(`^GRANT (.+) TO ("(?:[^"]|"")+")$`)

// object is the last name that a grant is about.
var object = regexp.MustCompile(`"([^"]+)"(?:\(.*\))?$`)

// requireFit requires that Check found nothing, or nothing but that the server is older
// than those that are supported.
func requireFit(t *testing.T, err error) {
	t.Helper()
	if pgtest.Major(t) < postgres.OldestServer {
		require.ErrorContains(t, err, fmt.Sprintf("use PostgreSQL %d or newer", postgres.OldestServer))
		return
	}
	require.NoError(t, err)
}

// TestEveryGrantIsNeeded leaves out one of the statements at a time, and then one
// right at a time. Check, and the transaction that needs it, name what is missing;
// nothing is tried again, and nothing is written.
func TestEveryGrantIsNeeded(t *testing.T) {
	t.Parallel()
	var r *role
	w := setting{through: func(t *testing.T, db *pgtest.DB) *pgtest.DB {
		r = newRole(t, db)
		return r.db
	}}.world(t)
	grants, err := migrations.Grants(w.schema, r.name)
	require.NoError(t, err)
	for _, g := range grants {
		r.exec(t, g)
	}
	check := func() error {
		_, err := w.driver(t).Check(t.Context())
		return err
	}
	requireFit(t, check())

	for _, g := range grants {
		parts := grant.FindStringSubmatch(g)
		require.NotNil(t, parts, g)
		name := object.FindStringSubmatch(parts[1])[1]
		r.exec(t, "REVOKE "+parts[1]+" FROM "+parts[2])
		requireNamed(t, check(), name)
		requireNamed(t, w.use(t, w.collectionOf(name)), name)
		w.requireEmpty(t)
		r.exec(t, g)
	}
	for _, c := range storage.Collections() {
		require.NoError(t, w.use(t, c))
		for _, right := range []string{"SELECT", "INSERT", "UPDATE", "DELETE"} {
			r.exec(t, "REVOKE "+right+" ON "+w.table(c)+" FROM "+r.quoted)
			err := check()
			requireNamed(t, err, postgres.TableName(c))
			require.ErrorContains(t, err, right)
			requireNamed(t, w.use(t, c), postgres.TableName(c))
			w.exec(t, w.empty)
			r.exec(t, "GRANT "+right+" ON "+w.table(c)+" TO "+r.quoted)
		}
	}
	requireFit(t, check())
}

// requireNamed requires an error about a missing right that says on what, and how to
// mend it.
func requireNamed(t *testing.T, err error, name string) {
	t.Helper()
	require.ErrorIs(t, err, storage.ErrConfiguration, "without a right on %s", name)
	require.False(t, storage.Retryable(err))
	var c *storage.ConfigurationError
	require.ErrorAs(t, err, &c)
	require.Contains(t, c.Problem, name)
	require.Contains(t, c.Mend, "runlane migrate grants")
}

// collectionOf is the collection of a table; that of runs if it is none.
func (w *world) collectionOf(table string) storage.Collection {
	for _, c := range storage.Collections() {
		if postgres.TableName(c) == table {
			return c
		}
	}
	return storage.Runs
}

// use creates, replaces and deletes a record, on a new driver, and returns the first
// error. No callback is called twice.
func (w *world) use(t *testing.T, c storage.Collection) error {
	t.Helper()
	d := w.driver(t)
	rec := record(t, c)
	for _, step := range []func(ctx context.Context, tx storage.Tx) error{
		func(ctx context.Context, tx storage.Tx) error { return tx.Create(ctx, rec) },
		func(ctx context.Context, tx storage.Tx) error { return tx.Replace(ctx, rec) },
		func(ctx context.Context, tx storage.Tx) error { return tx.Delete(ctx, rec.Key) },
	} {
		attempts := 0
		_, err := d.Transact(t.Context(), "use", func(ctx context.Context, tx storage.Tx) error {
			attempts++
			if _, _, err := tx.Get(ctx, rec.Key); err != nil {
				return err
			}
			return step(ctx, tx)
		})
		require.Equal(t, 1, attempts)
		if err != nil {
			return err
		}
	}
	return nil
}

// record is a record of no special content.
func record(t *testing.T, c storage.Collection) storage.Record {
	t.Helper()
	partition, err := keys.New().String("env").Text()
	require.NoError(t, err)
	id, err := keys.New().String("id").Text()
	require.NoError(t, err)
	return storage.Record{Key: storage.Key{Collection: c, Partition: partition, ID: id}, Document: []byte(`{"n":1}`)}
}
