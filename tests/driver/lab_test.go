package driver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/keys"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// lab is a driver whose statements are recorded, and a client beside it that
// looks at the tables, or gets in the way.
type lab struct {
	*testing.T
	d    *postgres.Driver
	db   *pgtest.DB
	tap  *tap
	pool *pgxpool.Pool // the driver's
	side *pgxpool.Pool
}

func newLab(t *testing.T, c postgres.Config, changes ...func(*pgxpool.Config)) *lab {
	t.Helper()
	db := pgtest.New(t)
	config := db.Config(t)
	l := &lab{T: t, db: db, tap: &tap{}, side: db.Pool(t)}
	config.ConnConfig.Tracer = l.tap
	for _, change := range changes {
		change(config)
	}
	var err error
	l.pool, err = pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(l.pool.Close)
	l.d, err = postgres.New(l.pool, c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.d.Close()) })
	return l
}

// in is the lab within a subtest.
func (l *lab) in(t *testing.T) *lab {
	within := *l
	within.T = t
	return &within
}

type callbackFunc = func(ctx context.Context, tx storage.Tx) error

func (l *lab) transact(fn callbackFunc) storage.Commit {
	l.Helper()
	commit, err := l.d.Transact(l.Context(), "lab", fn)
	require.NoError(l, err)
	return commit
}

// exec runs SQL beside the driver.
func (l *lab) exec(sql string, args ...any) {
	l.Helper()
	_, err := l.side.Exec(l.Context(), sql, args...)
	require.NoError(l, err, sql)
}

// scalar is the one value that a query beside the driver returns.
func scalar[T any](l *lab, sql string, args ...any) (v T) {
	l.Helper()
	require.NoError(l, l.side.QueryRow(l.Context(), sql, args...).Scan(&v), sql)
	return v
}

// column is the one column that a query beside the driver returns.
func column[T any](l *lab, sql string, args ...any) []T {
	l.Helper()
	rows, err := l.side.Query(l.Context(), sql, args...)
	require.NoError(l, err, sql)
	list, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(l, err, sql)
	return list
}

// comes waits until a query beside the driver says yes.
func (l *lab) comes(sql string, args ...any) error {
	deadline := time.Now().Add(20 * time.Second)
	for yes := false; ; time.Sleep(2 * time.Millisecond) { // between two looks
		if err := l.side.QueryRow(l.Context(), sql, args...).Scan(&yes); yes || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it never came to this: %s", sql)
		}
	}
}

// hold keeps a transaction open beside the driver in which sql has been run, until
// the result is called or the test ends.
func (l *lab) hold(sql string, args ...any) (release func()) {
	l.Helper()
	conn, err := l.side.Acquire(context.Background())
	require.NoError(l, err)
	tx, err := conn.Begin(context.Background())
	require.NoError(l, err)
	var once sync.Once
	release = func() {
		once.Do(func() {
			_ = tx.Rollback(context.Background())
			conn.Release()
		})
	}
	l.Cleanup(release)
	_, err = tx.Exec(l.Context(), sql, args...)
	require.NoError(l, err, sql)
	return release
}

// start runs a transaction in another goroutine. The result waits for its end.
func (l *lab) start(fn callbackFunc) (wait func() (storage.Commit, error)) {
	type outcome struct {
		commit storage.Commit
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		commit, err := l.d.Transact(l.Context(), "lab", fn)
		done <- outcome{commit, err}
	}()
	return func() (storage.Commit, error) {
		l.Helper()
		select {
		case o := <-done:
			return o.commit, o.err
		case <-time.After(30 * time.Second):
			require.Fail(l, "the transaction never ends")
			return storage.Commit{}, nil
		}
	}
}

// tuple is the encoding of a tuple of strings.
func tuple(parts ...string) string {
	t := keys.New()
	for _, p := range parts {
		t = t.String(p)
	}
	text, err := t.Text()
	if err != nil {
		panic(err)
	}
	return text
}

// item names a record of the environment "prod".
func item(c storage.Collection, id string) storage.Key {
	return storage.Key{Collection: c, Partition: tuple("prod"), ID: tuple(id)}
}

// slot names a record of a collection that nothing is special about.
func slot(id string) storage.Key { return item(storage.QueueSlots, id) }

// plain is a record with a small document.
func plain(key storage.Key, entries ...storage.Entry) storage.Record {
	return storage.Record{Key: key, Document: []byte(`{"n":1}`), Entries: entries}
}

// dueIn is a run's entry in a queue of one word.
func dueIn(queue, sort string) storage.Entry {
	return storage.Entry{Index: storage.RunsByDue, Partition: tuple("prod", queue), Sort: tuple(sort)}
}

// creates is a callback that creates records without reading anything.
func creates(recs ...storage.Record) callbackFunc {
	return func(ctx context.Context, tx storage.Tx) error {
		for _, rec := range recs {
			if err := tx.Create(ctx, rec); err != nil {
				return err
			}
		}
		return nil
	}
}

// steps is a callback that does one thing after the other.
func steps(fns ...callbackFunc) callbackFunc {
	return func(ctx context.Context, tx storage.Tx) error {
		for _, fn := range fns {
			if err := fn(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	}
}

// reads reads records in one go.
func reads(keys ...storage.Key) callbackFunc {
	return func(ctx context.Context, tx storage.Tx) error {
		_, err := tx.GetMany(ctx, keys)
		return err
	}
}

// writes replaces records that have been read.
func writes(recs ...storage.Record) callbackFunc {
	return func(ctx context.Context, tx storage.Tx) error {
		for _, rec := range recs {
			if err := tx.Replace(ctx, rec); err != nil {
				return err
			}
		}
		return nil
	}
}

// replaces reads records and writes them again.
func replaces(recs ...storage.Record) callbackFunc {
	var keys []storage.Key
	for _, rec := range recs {
		keys = append(keys, rec.Key)
	}
	return steps(reads(keys...), writes(recs...))
}

// queries reads a page.
func queries(q storage.Query) callbackFunc {
	return func(ctx context.Context, tx storage.Tx) error {
		_, err := tx.Query(ctx, q)
		return err
	}
}

// appends appends one item to a stream.
func appends(head storage.Key, item string) callbackFunc {
	return func(ctx context.Context, tx storage.Tx) error { return tx.Append(ctx, head, []byte(item)) }
}

// wakes sends a hint.
func wakes(topic string) callbackFunc {
	return func(_ context.Context, tx storage.Tx) error { return tx.Wake(topic) }
}

// now asks for the time, which seals what was read.
func now(ctx context.Context, tx storage.Tx) error {
	_, err := tx.Now(ctx)
	return err
}

// errUndo is for callbacks that want nothing stored.
var errUndo = errors.New("undo")

// tap records the statements that connections send, in order.
type tap struct {
	mu   sync.Mutex
	sent []sent
}

type sent struct {
	sql  string
	args []any
}

func (t *tap) add(sql string, args []any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = append(t.sent, sent{sql, args})
}

// take returns what was sent since the last call.
func (t *tap) take() []sent {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.sent
	t.sent = nil
	return all
}

// kinds is take in one word for each statement. That reads are told how to be planned is
// left out: it travels with each that finds rows by their keys.
func (t *tap) kinds() []string {
	list := []string{}
	for _, s := range t.take() {
		if s.kind() != "planner" {
			list = append(list, s.kind())
		}
	}
	return list
}

func (t *tap) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	t.add(data.SQL, data.Args)
	return ctx
}

func (*tap) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (t *tap) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, q := range data.Batch.QueuedQueries {
		t.add(q.SQL, q.Arguments)
	}
	return ctx
}

func (*tap) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*tap) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// kind says in one word what a statement is.
func (s sent) kind() string {
	has := func(text string) bool { return strings.Contains(s.sql, text) }
	writes := has("INSERT INTO") || has("UPDATE \"runlane\"") || has("DELETE FROM")
	switch {
	case strings.HasPrefix(s.sql, "BEGIN"), s.sql == "COMMIT", s.sql == "ROLLBACK":
		return strings.Fields(s.sql)[0]
	case has("set_config('lock_timeout'"):
		return "settings"
	case has("set_config('plan_cache_mode'"):
		return "planner"
	case has("'observation_head'"):
		return "append"
	case has("SELECT count(*) FROM taken"):
		return "wait"
	case has("pg_try_advisory_xact_lock") && has("'busy '"):
		return "try"
	case has("pg_notify"):
		return "notify"
	case has("nextval("):
		return "versions"
	case s.sql == "SELECT clock_timestamp()":
		return "clock"
	case has("SKIP LOCKED"):
		return "exclusive"
	case has("page.sort"):
		return "page"
	case writes:
		return "commit"
	case has("{assert}"), has("runlane_assert_record_write"):
		return "check"
	case has("record_version AS version"):
		return "lookup"
	}
	return fmt.Sprintf("%.40q", s.sql)
}
