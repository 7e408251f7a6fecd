package conformance_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

// TestRefusedSessions: in these sessions the driver could lose or garble what it
// stores, or cannot write at all. It says so, at once, and nothing is written.
func TestRefusedSessions(t *testing.T) {
	text := []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
	every := slices.Concat(text, []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec})
	for _, c := range []struct {
		name, setting, value string
		modes                []pgx.QueryExecMode
		want                 error
		says                 string
	}{
		// The statement after a lock wait would see what was there before the wait.
		{"repeatable read", "default_transaction_isolation", "repeatable read", every, storage.ErrConfiguration, "read committed"},
		{"serializable", "default_transaction_isolation", "serializable", every, storage.ErrConfiguration, "read committed"},
		// As after a failover.
		{"read only", "default_transaction_read_only", "on", every, storage.ErrUnavailable, "read-only"},
		// Letters would be stored as others; the session itself would not notice.
		{"a client encoding", "client_encoding", "LATIN1", every, storage.ErrConfiguration, "client_encoding"},
		{"escapes in strings", "standard_conforming_strings", "off", text[1:], storage.ErrConfiguration, "standard_conforming_strings"},
		// A commit whose time cannot be read has an outcome that cannot be told.
		{"a date style", "DateStyle", "SQL, DMY", text, storage.ErrConfiguration, "DateStyle"},
		{"another date style", "DateStyle", "German", text, storage.ErrConfiguration, "DateStyle"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := setting{}.world(t)
			for _, m := range c.modes {
				w.refuses(t, all(mode(m), session(c.setting, c.value)), c.want, fmt.Sprintf("%v: %s", m, c.name), c.says)
			}
		})
	}
}

// refuses writes through a pool of its own that is made as change says, by itself and
// after a read.
func (w *world) refuses(t *testing.T, change func(*pgxpool.Config), want error, name, says string) {
	t.Helper()
	config := w.db.Config(t)
	change(config)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	in := &world{setting: w.setting, db: w.db, owner: w.owner, pool: pool, empty: w.empty}
	d := in.driver(t)
	rec := record(t, storage.Runs)
	for _, read := range []bool{false, true} {
		attempts := 0
		_, err := d.Transact(t.Context(), "refused", func(ctx context.Context, tx storage.Tx) error {
			attempts++
			if read {
				if _, _, err := tx.Get(ctx, rec.Key); err != nil {
					return err
				}
			}
			return tx.Create(ctx, rec)
		})
		require.ErrorIs(t, err, want, name)
		require.Equal(t, want == storage.ErrUnavailable, storage.Retryable(err), name)
		require.ErrorContains(t, err, says, name)
		require.LessOrEqual(t, attempts, 1, name)
	}
	w.requireEmpty(t)
	if want == storage.ErrConfiguration {
		_, err = d.Check(t.Context())
		require.ErrorIs(t, err, want, name)
		require.ErrorContains(t, err, says, name)
	}
	in.requireIdle(t)
}
