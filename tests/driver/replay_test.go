package driver_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// fails makes the next n inserts into the slots' table fail with a SQLSTATE.
func (l *lab) fails(n int, state string) {
	l.Helper()
	l.exec(fmt.Sprintf(`CREATE SEQUENCE public.failures;
CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF nextval('public.failures') <= %d THEN
    RAISE EXCEPTION 'made to fail' USING ERRCODE = '%s';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER fail BEFORE INSERT ON runlane.runlane_record_queue_slots FOR EACH ROW EXECUTE FUNCTION public.fail()`, n, state))
}

// TestWhatIsReplayed makes the first attempt fail in each way that another attempt
// may mend, and finds that the second commits.
func TestWhatIsReplayed(t *testing.T) {
	write := func(ctx context.Context, tx storage.Tx) error {
		if _, _, err := tx.Get(ctx, slot("read")); err != nil {
			return err
		}
		return tx.Create(ctx, plain(slot("new")))
	}
	ways := []struct {
		name string
		// get gets in the way of the first attempt, after its reads; the result lets the
		// second one pass.
		get func(l *lab) (yield func())
	}{
		{"a busy lock", func(l *lab) func() {
			return l.hold("SELECT pg_advisory_xact_lock($1)", l.hash(recordText(slot("new"))))
		}},
		{"a changed dependency", func(l *lab) func() {
			l.exec("UPDATE runlane.runlane_record_queue_slots SET record_version = nextval('runlane.runlane_record_versions')")
			return func() {}
		}},
		{"a dependency that is gone", func(l *lab) func() {
			l.exec("DELETE FROM runlane.runlane_record_queue_slots")
			return func() {}
		}},
		{"a serialization failure", func(l *lab) func() { l.fails(1, "40001"); return func() {} }},
		{"a deadlock", func(l *lab) func() { l.fails(1, "40P01"); return func() {} }},
		{"a lock timeout", func(l *lab) func() {
			return l.hold("INSERT INTO runlane.runlane_record_queue_slots VALUES ($1, $2, 1, '{}')", slot("new").Partition, slot("new").ID)
		}},
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			config := patient
			if way.name == "a lock timeout" {
				config.LockTimeout = 50 * time.Millisecond
			}
			l := newLab(t, config)
			l.transact(creates(plain(slot("read"))))
			var yield func()
			attempts := 0
			commit := l.transact(func(ctx context.Context, tx storage.Tx) error {
				attempts++
				if attempts == 2 {
					yield()
				}
				if err := write(ctx, tx); err != nil {
					return err
				}
				if attempts == 1 {
					yield = way.get(l)
					if way.name == "a busy lock" {
						// The replay waits for this lock before its callback runs.
						go func() {
							defer yield()
							if err := l.comes(someoneWaits); err != nil {
								t.Error(err)
							}
						}()
					}
				}
				return nil
			})
			require.Equal(t, 2, commit.Attempts)
			require.Equal(t, 1, scalar[int](l, "SELECT count(*) FROM runlane.runlane_record_queue_slots WHERE record_id = $1", slot("new").ID))
		})
	}
}

// TestAttemptsEnd never lets an attempt succeed: after eight of them it is a
// retryable conflict, and nothing is stored.
func TestAttemptsEnd(t *testing.T) {
	l := newLab(t, postgres.Config{})
	l.fails(1000, "40001")
	calls := 0
	commit, err := l.d.Transact(t.Context(), "lab.attempts", func(ctx context.Context, tx storage.Tx) error {
		calls++
		return creates(plain(slot("new")), plain(item(storage.SingletonOwners, "new")))(ctx, tx)
	})
	require.ErrorIs(t, err, storage.ErrConflict)
	require.True(t, storage.Retryable(err))
	var conflict *storage.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, []any{8, 8, 8, "lab.attempts"}, []any{calls, commit.Attempts, conflict.Attempts, conflict.Label})
	require.EqualValues(t, 8, scalar[int64](l, "SELECT last_value FROM public.failures"), "inserts that were tried")
	require.Zero(t, scalar[int](l, "SELECT (SELECT count(*) FROM runlane.runlane_record_queue_slots) + (SELECT count(*) FROM runlane.runlane_record_singleton_owners)"))

	l = newLab(t, postgres.Config{MaxTransactionAttempts: 3})
	l.fails(1000, "40001")
	_, err = l.d.Transact(t.Context(), "lab", creates(plain(slot("new"))))
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, 3, conflict.Attempts)
}

// TestLockTimeout waits for a lock that nobody gives back. It is the server that
// ends the wait, after two seconds.
func TestLockTimeout(t *testing.T) {
	l := newLab(t, postgres.Config{MaxTransactionAttempts: 2})
	defer l.hold("SELECT pg_advisory_xact_lock($1)", l.hash(recordText(slot("a"))))()
	calls := 0
	begun := time.Now()
	_, err := l.d.Transact(t.Context(), "lab", func(ctx context.Context, tx storage.Tx) error {
		calls++
		return tx.Create(ctx, plain(slot("a")))
	})
	waited := time.Since(begun)
	var conflict *storage.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, storage.ReasonLocked, conflict.Reason)
	require.Equal(t, 1, calls, "the second attempt never got as far as its callback")
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg)
	require.Equal(t, "55P03", pg.Code)
	require.GreaterOrEqual(t, waited, 2*time.Second)

	l = newLab(t, postgres.Config{})
	l.transact(now)
	for _, s := range l.tap.take() {
		if s.kind() == "settings" {
			require.Equal(t, []any{"2000", "10000", "10000"}, s.args, "lock, statement and idle timeout in milliseconds")
		}
	}
}

// TestSettingsEndWithTheTransaction: what the driver sets for its transactions is
// not there for whoever uses the connection next.
func TestSettingsEndWithTheTransaction(t *testing.T) {
	l := newLab(t, postgres.Config{})
	shared, err := postgres.New(l.side, postgres.Config{})
	require.NoError(t, err)
	settings := "SELECT current_setting('lock_timeout') || ' ' || current_setting('statement_timeout') || ' ' || current_setting('idle_in_transaction_session_timeout')"
	before := scalar[string](l, settings)
	for name, fn := range map[string]callbackFunc{
		"implicit":    creates(plain(slot("a"))),
		"explicit":    steps(now, creates(plain(slot("b")))),
		"rolled back": steps(now, func(context.Context, storage.Tx) error { return errUndo }),
	} {
		_, err := shared.Transact(t.Context(), "lab", fn)
		require.Equal(t, name == "rolled back", err != nil, "%s: %v", name, err)
		for range 4 { // whichever connection of the pool it was
			require.Equal(t, before, scalar[string](l, settings), name)
		}
	}
}

// TestTransactionsAreProbed: while a transaction is open, the server asks the client's
// machine whether it is still there.
func TestTransactionsAreProbed(t *testing.T) {
	l := newLab(t, postgres.Config{})
	l.transact(creates(plain(slot("a"))))
	all := l.tap.take()
	settings := all[slices.IndexFunc(all, func(s sent) bool { return s.kind() == "settings" })]
	conn, err := l.side.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	probes := func() (text string) {
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT concat_ws(' ', current_setting('tcp_keepalives_idle'), current_setting('tcp_keepalives_interval'), current_setting('tcp_keepalives_count'))").Scan(&text))
		return text
	}
	before := probes()
	_, err = conn.Exec(t.Context(), "BEGIN")
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), settings.sql, settings.args...)
	require.NoError(t, err)
	require.Equal(t, "5 5 3", probes())
	_, err = conn.Exec(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	require.Equal(t, before, probes())
}

// TestCommitDeadline: a commit that reaches the server after its deadline does nothing,
// and one that does before it is the same statement.
func TestCommitDeadline(t *testing.T) {
	l := newLab(t, postgres.Config{})
	l.transact(creates(plain(slot("a"))))
	all := l.tap.take()
	commit := all[slices.IndexFunc(all, func(s sent) bool { return s.kind() == "commit" })]
	l.exec("DELETE FROM runlane.runlane_record_queue_slots")
	stored := "SELECT count(*) FROM runlane.runlane_record_queue_slots"
	for _, c := range []struct {
		after time.Duration
		rows  int
	}{{-time.Microsecond, 0}, {time.Minute, 1}} {
		args := slices.Clone(commit.args)
		args[0] = scalar[time.Time](l, "SELECT clock_timestamp()").Add(c.after).UTC().Format(storage.TimeFormat)
		_, err := l.side.Exec(t.Context(), commit.sql, args...)
		if c.rows == 0 {
			var refused *pgconn.PgError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, "40001 deadline", refused.Code+" "+refused.Detail)
		} else {
			require.NoError(t, err)
		}
		require.Equal(t, c.rows, scalar[int](l, stored), c.after)
	}
}

// TestNestedTransaction runs a transaction inside the callback of another under a
// context that does not tell: it ends as a bounded conflict.
func TestNestedTransaction(t *testing.T) {
	l := newLab(t, postgres.Config{LockTimeout: 20 * time.Millisecond})
	l.transact(func(ctx context.Context, tx storage.Tx) error {
		require.NoError(t, tx.Create(ctx, plain(slot("a"))))
		_, err := tx.Now(ctx)
		require.NoError(t, err)
		_, err = l.d.Transact(ctx, "inner", creates(plain(slot("b"))))
		require.ErrorIs(t, err, storage.ErrNestedTransaction, "under the callback's context it fails at once")

		commit, err := l.d.Transact(t.Context(), "inner", creates(plain(slot("a"))))
		var conflict *storage.ConflictError
		require.ErrorAs(t, err, &conflict)
		require.Equal(t, 8, conflict.Attempts)
		require.Equal(t, 1, commit.Attempts, "no replay was admitted")
		_, err = l.d.Transact(t.Context(), "inner", creates(plain(slot("b"))))
		require.NoError(t, err, "what the outer one does not hold is free")
		return nil
	})
}
