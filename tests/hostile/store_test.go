// Package hostile_test gives the drivers what has bitten users of comparable
// systems: text, numbers and times at their edges, in every field and on every way
// into and out of the database. What is not particular to PostgreSQL runs on the
// memory driver as well.
package hostile_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/memory"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// modes are the ways in which pgx sends a statement and its parameters.
var modes = []struct {
	name string
	mode pgx.QueryExecMode
}{
	{"cache_statement", pgx.QueryExecModeCacheStatement},
	{"cache_describe", pgx.QueryExecModeCacheDescribe},
	{"describe_exec", pgx.QueryExecModeDescribeExec},
	{"exec", pgx.QueryExecModeExec},
	{"simple_protocol", pgx.QueryExecModeSimpleProtocol},
}

// store is a driver under test.
type store struct {
	*testing.T
	storage.Driver
	db *pgtest.DB    // nil for the memory driver
	sq *pgxpool.Pool // SQL beside the driver; nil for the memory driver
}

// newPostgres is a store in a database of its own; change may be nil.
func newPostgres(t *testing.T, change func(*pgxpool.Config)) *store {
	t.Helper()
	db := pgtest.New(t)
	return &store{t, openOn(t, db, change), db, db.Pool(t)}
}

// openOn opens a driver on a database.
func openOn(t *testing.T, db *pgtest.DB, change func(*pgxpool.Config)) *postgres.Driver {
	t.Helper()
	config := db.Config(t)
	if change != nil {
		change(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d, err := postgres.New(pool, postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func newMemory(t *testing.T, c memory.Config) *store {
	t.Helper()
	d := memory.New(c)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return &store{T: t, Driver: d}
}

func withMode(m pgx.QueryExecMode) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = m }
}

// onBoth runs a test on the memory driver and on PostgreSQL as it is by default.
func onBoth(t *testing.T, test func(s *store)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { test(newMemory(t, memory.Config{})) })
	t.Run("postgres", func(t *testing.T) { test(newPostgres(t, nil)) })
}

// inEveryMode runs a test on the memory driver and on PostgreSQL in every mode.
func inEveryMode(t *testing.T, test func(s *store)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { test(newMemory(t, memory.Config{})) })
	db := pgtest.New(t)
	sq := db.Pool(t)
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			s := &store{t, openOn(t, db, withMode(m.mode)), db, sq}
			test(s)
			s.clear()
		})
	}
}

// clear empties all tables.
func (s *store) clear() {
	s.Helper()
	var tables []string
	for _, c := range storage.Collections() {
		tables = append(tables, "runlane."+postgres.TableName(c))
	}
	s.sql("TRUNCATE " + strings.Join(tables, ", "))
}

type callback = func(ctx context.Context, tx storage.Tx) error

func (s *store) transact(fn callback) (storage.Commit, error) {
	return s.Transact(s.Context(), "hostile", fn)
}

func (s *store) must(fn callback) storage.Commit {
	s.Helper()
	commit, err := s.transact(fn)
	require.NoError(s, err)
	return commit
}

// create creates records in one transaction, blindly.
func (s *store) create(recs ...storage.Record) storage.Commit {
	s.Helper()
	return s.must(creates(recs...))
}

func creates(recs ...storage.Record) callback {
	return func(ctx context.Context, tx storage.Tx) error {
		for _, rec := range recs {
			if err := tx.Create(ctx, rec); err != nil {
				return err
			}
		}
		return nil
	}
}

// replace reads records and replaces them, in one transaction.
func (s *store) replace(recs ...storage.Record) storage.Commit {
	s.Helper()
	return s.must(replaces(recs...))
}

func replaces(recs ...storage.Record) callback {
	return func(ctx context.Context, tx storage.Tx) error {
		if _, err := tx.GetMany(ctx, keysOf(recs)); err != nil {
			return err
		}
		for _, rec := range recs {
			if err := tx.Replace(ctx, rec); err != nil {
				return err
			}
		}
		return nil
	}
}

// remove reads records and deletes them, in one transaction.
func (s *store) remove(keys ...storage.Key) storage.Commit {
	s.Helper()
	return s.must(func(ctx context.Context, tx storage.Tx) error {
		if _, err := tx.GetMany(ctx, keys); err != nil {
			return err
		}
		for _, key := range keys {
			if err := tx.Delete(ctx, key); err != nil {
				return err
			}
		}
		return nil
	})
}

func keysOf(recs []storage.Record) []storage.Key {
	keys := make([]storage.Key, len(recs))
	for i, rec := range recs {
		keys[i] = rec.Key
	}
	return keys
}

// readAll returns the records that are there, by every way of reading points, which
// must agree.
func (s *store) readAll(keys ...storage.Key) map[storage.Key]storage.Record {
	s.Helper()
	var found map[storage.Key]storage.Record
	s.must(func(ctx context.Context, tx storage.Tx) (err error) {
		peeked, err := tx.Peek(ctx, keys)
		if err != nil {
			return err
		}
		if found, err = tx.GetMany(ctx, keys); err != nil {
			return err
		}
		require.Equal(s, found, peeked)
		return nil
	})
	return found
}

// read returns a record that must be there.
func (s *store) read(key storage.Key) storage.Record {
	s.Helper()
	rec, found := s.readAll(key)[key]
	require.True(s, found, "%v is absent", key)
	return rec
}

// query returns one page.
func (s *store) query(q storage.Query) storage.Page {
	s.Helper()
	var page storage.Page
	s.must(func(ctx context.Context, tx storage.Tx) (err error) {
		page, err = tx.Query(ctx, q)
		return err
	})
	return page
}

// rows counts the rows of all tables; the memory driver has none to count.
func (s *store) rows() (n int) {
	s.Helper()
	if s.sq == nil {
		return 0
	}
	var counts []string
	for _, c := range storage.Collections() {
		counts = append(counts, "(SELECT count(*) FROM runlane."+postgres.TableName(c)+")")
	}
	require.NoError(s, s.sq.QueryRow(s.Context(), "SELECT "+strings.Join(counts, " + ")).Scan(&n))
	return n
}

// sql runs a statement beside the driver.
func (s *store) sql(statement string, args ...any) {
	s.Helper()
	_, err := s.sq.Exec(s.Context(), statement, args...)
	require.NoError(s, err)
}

// refused requires a refusal of that kind that names a field or a path.
func (s *store) refused(err, kind error, field string, about ...any) {
	s.Helper()
	requireRefused(s.T, err, kind, field, about...)
}

func requireRefused(t *testing.T, err, kind error, field string, about ...any) {
	t.Helper()
	require.ErrorIs(t, err, kind, about...)
	var input *storage.InputError
	require.ErrorAs(t, err, &input, about...)
	require.Equal(t, kind, input.Kind, about...)
	require.Contains(t, input.Field, field, about...)
}

// created is the first event of a run.
func created(environment, id string, data run.Created) run.Event {
	if data.Task == "" {
		data.Task = "task"
	}
	if data.Queue == "" {
		data.Queue = "queue"
	}
	if data.Priority == 0 {
		data.Priority = run.PriorityDefault
	}
	if data.Source.Type == "" {
		data.Source.Type = run.SourceTrigger
	}
	return run.Event{ID: uuid.New(), Environment: environment, RunID: id, Sequence: 1, At: run.AtCommit, Data: data}
}

// after is the run after more events.
func after(t *testing.T, r *run.Run, events ...run.Event) run.Run {
	t.Helper()
	first := int64(1)
	if r != nil {
		first = r.Sequence + 1
	}
	next, err := run.Reduce(r, first, events...)
	require.NoError(t, err)
	return next
}

func encodeRun(t *testing.T, r run.Run) storage.Record {
	t.Helper()
	rec, err := codec.EncodeRun(r)
	require.NoError(t, err)
	return rec
}

func encodeEvent(t *testing.T, e run.Event) storage.Record {
	t.Helper()
	rec, err := codec.EncodeEvent(e)
	require.NoError(t, err)
	return rec
}

// newRun is a run with a payload (nil: none), and its Created event.
func newRun(t *testing.T, environment, id string, payload []byte) (r run.Run, runRec, eventRec storage.Record) {
	t.Helper()
	e := created(environment, id, run.Created{Payload: payload})
	r = after(t, nil, e)
	return r, encodeRun(t, r), encodeEvent(t, e)
}

// decodeRun requires a canonical run.
func decodeRun(t *testing.T, rec storage.Record) run.Run {
	t.Helper()
	r, kind := codec.DecodeRun(rec)
	require.Equal(t, codec.Canonical, kind, "%s", rec.Document)
	return r
}

// decodeEvent requires a canonical event.
func decodeEvent(t *testing.T, rec storage.Record) run.Event {
	t.Helper()
	e, kind := codec.DecodeEvent(rec)
	require.Equal(t, codec.Canonical, kind, "%s", rec.Document)
	return e
}

// listRuns follows the cursors to the end.
func (s *store) listRuns(f storage.RunFilter) []storage.RunItem {
	s.Helper()
	var all []storage.RunItem
	for {
		page, err := s.ListRuns(s.Context(), f)
		require.NoError(s, err)
		all = append(all, page.Runs...)
		if f.Cursor = page.Next; f.Cursor == "" {
			return all
		}
	}
}

// listEvents follows the cursors to the end.
func (s *store) listEvents(f storage.EventFilter) []run.Event {
	s.Helper()
	var all []run.Event
	for {
		page, err := s.ListEvents(s.Context(), f)
		require.NoError(s, err)
		all = append(all, page.Events...)
		if f.Cursor = page.Next; f.Cursor == "" {
			return all
		}
	}
}

// getRun returns a run that must be visible to operators.
func (s *store) getRun(environment, id string) run.Run {
	s.Helper()
	r, found, err := s.GetRun(s.Context(), environment, id)
	require.NoError(s, err)
	require.True(s, found, "%q", id)
	return r
}

func idsOf(items []storage.RunItem) []string {
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = item.ID
	}
	return ids
}

// await polls until the condition holds.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !condition() {
		require.True(t, time.Now().Before(deadline), "%s does not happen", what)
		time.Sleep(5 * time.Millisecond)
	}
}

func show(format string, args ...any) string { return fmt.Sprintf(format, args...) }
