// Package faults_test breaks connections, backends and servers under the driver and
// compares what the driver answers with what the database holds.
package faults_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sort"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
	"github.com/seed4391e180/runlane/tests/wire"
)

// patience bounds what a test waits for; none is meant to take it.
const patience = 30 * time.Second

// world is a database, and a driver beside the faults that prepares and judges.
type world struct {
	*testing.T
	ctx      context.Context
	db       *pgtest.DB
	pool     *pgxpool.Pool
	driver   *postgres.Driver
	lastName *atomic.Int64
}

func newWorld(t *testing.T, opts ...pgtest.Option) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*patience)
	t.Cleanup(cancel)
	db := pgtest.New(t, opts...)
	pool := db.Pool(t)
	d, err := postgres.New(pool, postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return &world{T: t, ctx: ctx, db: db, pool: pool, driver: d, lastName: &atomic.Int64{}}
}

// in is the world as a subtest sees it.
func (w *world) in(t *testing.T) *world {
	sub := *w
	sub.T = t
	return &sub
}

// environment names an environment that nobody else uses.
func (w *world) environment() string { return fmt.Sprintf("e%d", w.lastName.Add(1)) }

// broken is a driver whose connections break, one at a time: its pool has one.
type broken struct {
	*postgres.Driver
	pool   *pgxpool.Pool
	faults *wire.Faults
}

func (w *world) broken(c postgres.Config) (*broken, error) {
	pc, err := pgxpool.ParseConfig(w.db.URL)
	if err != nil {
		return nil, err
	}
	pc.MaxConns = 1
	b := &broken{faults: wire.Inject(pc)}
	if b.pool, err = pgxpool.NewWithConfig(w.ctx, pc); err != nil {
		return nil, err
	}
	b.Driver, err = postgres.New(b.pool, c)
	return b, err
}

// end closes everything; a half-open connection ends with it.
func (b *broken) end() error {
	b.faults.Close()
	err := b.Close()
	b.pool.Close()
	return err
}

// slotKey names a record of a collection that nothing is special about.
func slotKey(env string, slot int) storage.Key {
	key, err := codec.QueueSlotKey(env, "queue", "", slot)
	if err != nil {
		panic(err)
	}
	return key
}

// number is a slot that holds a number.
func number(key storage.Key, n int) storage.Record {
	return storage.Record{Key: key, Document: fmt.Appendf(nil, `{"n": %d}`, n)}
}

// numberIn is the number that a slot holds.
func numberIn(rec storage.Record) (n int) {
	if _, err := fmt.Sscanf(string(rec.Document), `{"n": %d}`, &n); err != nil {
		panic(fmt.Sprintf("%s is not one of ours: %v", rec.Document, err))
	}
	return n
}

// put stores records that are absent.
func (w *world) put(recs ...storage.Record) error {
	_, err := w.driver.Transact(w.ctx, "put", func(ctx context.Context, tx storage.Tx) error {
		for _, rec := range recs {
			if err := tx.Create(ctx, rec); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// stored is everything that an environment holds.
type stored struct {
	// text has a line for each record: its key and document, without what differs
	// from trial to trial. Records under random keys count by their document.
	text string
	// versions and times are of the records.
	versions map[storage.Key]storage.Version
	raw      string // text with everything
}

var (
	anyUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	anyTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z`)
)

// look reads an environment with plain SQL. A server that was restarted has broken
// the connections of the pool, which is no news about the environment.
func (w *world) look(env string) (s stored, err error) {
	lookErr := eventually(w.ctx, "the server lets itself be read", func() (bool, error) {
		if s, err = w.lookOnce(env); brokenConnection(err) {
			w.pool.Reset()
			return false, nil
		}
		return true, err
	})
	return s, errors.Join(err, lookErr)
}

func brokenConnection(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return strings.HasPrefix(pg.Code, "57P")
	}
	return err != nil && !errors.Is(err, context.DeadlineExceeded)
}

func (w *world) lookOnce(env string) (stored, error) {
	partition, err := codec.Partition(env)
	if err != nil {
		return stored{}, err
	}
	var arms []string
	for _, c := range storage.Collections() {
		key, id, payload := "partition_key", "record_id", "NULL::jsonb"
		switch c {
		case storage.Runs:
			key, id, payload = "environment_key", "run_id", "record_payload"
		case storage.RunEvents:
			key = "environment_key"
		}
		arms = append(arms, fmt.Sprintf("SELECT %d, %s, record_version, record_document::text || coalesce(' payload ' || (%s)::text, '') FROM runlane.%s WHERE %s = $1",
			c.Ordinal(), id, payload, postgres.TableName(c), key))
	}
	rows, err := w.pool.Query(w.ctx, strings.Join(arms, " UNION ALL "), partition)
	if err != nil {
		return stored{}, err
	}
	defer rows.Close()
	s := stored{versions: make(map[storage.Key]storage.Version)}
	var plain, raw []string
	for rows.Next() {
		var (
			ordinal      int
			id, document string
			version      int64
		)
		if err := rows.Scan(&ordinal, &id, &version, &document); err != nil {
			return stored{}, err
		}
		key := storage.Key{Collection: storage.Collections()[ordinal], Partition: partition, ID: id}
		s.versions[key] = storage.MakeVersion(version)
		line := fmt.Sprintf("%s/%s %s", key.Collection, strings.ToValidUTF8(id, "?"), document)
		raw = append(raw, line)
		line = anyTime.ReplaceAllString(anyUUID.ReplaceAllString(line, "<uuid>"), "<time>")
		plain = append(plain, strings.ReplaceAll(line, `"`+env+`"`, "<env>"))
	}
	sort.Strings(plain)
	sort.Strings(raw)
	s.text, s.raw = strings.Join(plain, "\n"), strings.Join(raw, "\n")
	return s, rows.Err()
}

// eventually polls until ok or an error; it gives up in the end.
func eventually(ctx context.Context, what string, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for {
		done, err := ok()
		if done || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited in vain: %s", what)
		}
	}
}

// gone waits until a backend has ended.
func (w *world) gone(backend uint32) error {
	return eventually(w.ctx, fmt.Sprintf("backend %d ends", backend), func() (gone bool, err error) {
		err = w.pool.QueryRow(w.ctx, "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1::bigint)", backend).Scan(&gone)
		return gone, err
	})
}
