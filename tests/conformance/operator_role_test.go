package conformance_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/migrations"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
	"github.com/seed4391e180/runlane/storage/storagetest"
)

// readOnly gives a role what "runlane migrate grants --read-only" prints, and nothing
// else, and returns a pool of its sessions.
func readOnly(t *testing.T, w *world) (*role, []string, *pgxpool.Pool) {
	t.Helper()
	r := newRole(t, w.db)
	grants, err := migrations.OperatorGrants(w.schema, r.name)
	require.NoError(t, err)
	for _, g := range grants {
		r.exec(t, g)
	}
	return r, grants, (&pgtest.DB{URL: r.db.URL}).Pool(t)
}

// split is a driver whose operator reads go to another one.
type split struct {
	storage.Transactor
	storage.Listener
	storage.Operator
	writes, reads *postgres.Driver
}

func (s split) Profile() storage.Profile { return s.writes.Profile() }
func (s split) Close() error             { return errors.Join(s.writes.Close(), s.reads.Close()) }

// TestOperatorReadsAsTheReadOnlyRole runs the suite with its operator reads on sessions of
// a role that has nothing but the grants for them.
func TestOperatorReadsAsTheReadOnlyRole(t *testing.T) {
	t.Parallel()
	w := setting{schema: `a"b'c`}.world(t)
	_, _, pool := readOnly(t, w)
	storagetest.RunWith(t, func(t testing.TB) storage.Driver {
		w.requireIdle(t)
		w.exec(t, w.empty)
		writes := w.driver(t)
		reads, err := postgres.New(pool, postgres.Config{Schema: w.schema})
		require.NoError(t, err)
		return split{Transactor: writes, Listener: writes, Operator: reads, writes: writes, reads: reads}
	}, storagetest.Options{Brief: true})
}

// TestEveryOperatorGrantIsNeeded takes away one of the grants at a time. The reads
// that need it name it, and others go on; writing is refused in any case.
func TestEveryOperatorGrantIsNeeded(t *testing.T) {
	t.Parallel()
	w := setting{}.world(t)
	r, grants, pool := readOnly(t, w)
	reads := func(d *postgres.Driver) map[string]error {
		_, _, get := d.GetRun(t.Context(), "env", "run")
		_, runs := d.ListRuns(t.Context(), storage.RunFilter{Environment: "env"})
		_, counts := d.CountRuns(t.Context(), storage.RunFilter{Environment: "env"}, 10)
		_, events := d.ListEvents(t.Context(), storage.EventFilter{Environment: "env", RunID: "run"})
		return map[string]error{"GetRun": get, "ListRuns": runs, "CountRuns": counts, "ListEvents": events}
	}
	driver := func() *postgres.Driver {
		d, err := postgres.New(pool, postgres.Config{Schema: w.schema})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		return d
	}
	d := driver()
	for name, err := range reads(d) {
		require.NoError(t, err, name)
	}

	needs := map[string][]string{
		w.schema:                    {"GetRun", "ListRuns", "CountRuns", "ListEvents"},
		"runlane_runs":              {"GetRun", "ListRuns", "CountRuns", "ListEvents"},
		"runlane_record_run_events": {"ListEvents"},
	}
	require.Len(t, grants, len(needs))
	for _, g := range grants {
		parts := grant.FindStringSubmatch(g)
		require.NotNil(t, parts, g)
		object := object.FindStringSubmatch(parts[1])[1]
		r.exec(t, "REVOKE "+parts[1]+" FROM "+parts[2])
		failed := reads(driver())
		for _, name := range needs[object] {
			requireNamed(t, failed[name], object)
			delete(failed, name)
		}
		for name, err := range failed {
			require.NoError(t, err, "%s without %s", name, object)
		}
		r.exec(t, g)
	}

	for _, c := range storage.Collections() {
		rec := record(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, err := d.Transact(ctx, "write", func(ctx context.Context, tx storage.Tx) error { return tx.Create(ctx, rec) })
		cancel()
		require.ErrorIs(t, err, storage.ErrConfiguration)
	}
	w.requireEmpty(t)
}
