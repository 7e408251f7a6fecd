package driver_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// warm makes the driver draw its versions, so that they are not in the way.
func (l *lab) warm() {
	l.Helper()
	l.transact(creates(plain(slot("warm"))))
	l.tap.take()
}

// TestStatements holds, for each shape of callback, which statements are sent and
// in which order: locks before what depends on them, the clock after them, hints
// and appends last, and a transaction of its own only where one is needed.
func TestStatements(t *testing.T) {
	l := newLab(t, postgres.Config{})
	l.transact(creates(plain(slot("a")), plain(slot("b")), plain(item(storage.Runs, "r"), dueIn("q", "1"))))
	due := storage.Query{Index: storage.RunsByDue, Partition: tuple("prod", "q")}
	locked := due
	locked.Lock = storage.Exclusive
	stream, err := codec.ObservationHeadKey("prod", "s")
	require.NoError(t, err)
	l.warm()

	shapes := []struct {
		name string
		want string
		fn   callbackFunc
	}{
		{"blind creates commit implicitly", "settings try commit", creates(plain(slot("new")), plain(item(storage.Runs, "new")))},
		{"a point read stands alone, the commit commits implicitly", "lookup settings try commit", replaces(plain(slot("a")))},
		{"candidates open no transaction", "page page", steps(queries(due), queries(due))},
		{"exclusive candidates open one", "BEGIN settings exclusive commit COMMIT",
			steps(queries(locked), writes(plain(item(storage.Runs, "r"), dueIn("q", "1"))))},
		{"Now opens one, and reads the clock last", "lookup BEGIN settings try check clock commit COMMIT",
			steps(reads(slot("a")), now, writes(plain(slot("a"))))},
		{"without Now the commit itself locks all that was read and written", "lookup settings try commit",
			steps(reads(slot("a"), slot("b"), slot("absent")), writes(plain(slot("a"))))},
		{"hints follow the writes, appends come last", "settings try commit notify wait append",
			steps(appends(stream, "1"), wakes("topic"), creates(plain(slot("appended"))))},
		{"an append in an open transaction comes last in it", "lookup BEGIN settings try check clock commit wait append COMMIT",
			steps(reads(slot("a")), now, appends(stream, "2"), writes(plain(slot("a"))))},
		{"an append alone", "settings wait append", appends(stream, "3")},
	}
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			commit := l.in(t).transact(shape.fn)
			require.Equal(t, shape.want, strings.Join(l.tap.kinds(), " "))
			require.Equal(t, 1, commit.Attempts)
		})
	}

	t.Run("a replay begins with its locks and keeps them", func(t *testing.T) {
		l := l.in(t)
		attempts := 0
		l.transact(func(ctx context.Context, tx storage.Tx) error {
			attempts++
			if err := reads(slot("a"), slot("b"))(ctx, tx); err != nil {
				return err
			}
			if attempts == 1 {
				l.exec("UPDATE runlane.runlane_record_queue_slots SET record_version = nextval('runlane.runlane_record_versions')")
			}
			return tx.Replace(ctx, plain(slot("a")))
		})
		require.Equal(t, "lookup settings try commit BEGIN settings wait lookup commit COMMIT", strings.Join(l.tap.kinds(), " "))
	})
}

// TestOneStatementAppliesEverything commits every operation on every collection,
// with expectations beside them, and finds one statement that writes.
func TestOneStatementAppliesEverything(t *testing.T) {
	l := newLab(t, postgres.Config{})
	records := func(id string) (list []storage.Record) {
		for _, c := range storage.Collections() {
			list = append(list, plain(item(c, id)))
		}
		return list
	}
	everything := func(more ...[]storage.Record) callbackFunc {
		return func(ctx context.Context, tx storage.Tx) error {
			var ks []storage.Key
			for _, id := range []string{"kept", "gone", "watched", "absent"} {
				for _, rec := range records(id) {
					ks = append(ks, rec.Key)
				}
			}
			if _, err := tx.GetMany(ctx, ks); err != nil {
				return err
			}
			for i, rec := range records("kept") {
				if err := tx.Replace(ctx, rec); err != nil {
					return err
				}
				if err := tx.Delete(ctx, records("gone")[i].Key); err != nil {
					return err
				}
			}
			return creates(slices.Concat(more...)...)(ctx, tx)
		}
	}
	l.transact(creates(slices.Concat(records("kept"), records("gone"), records("watched"))...))
	l.tap.take()
	commit := l.transact(everything(records("new"), records("newer"), records("newest")))
	all := l.tap.take()
	writing := slices.DeleteFunc(all, func(s sent) bool { return s.kind() != "commit" })
	require.Len(t, writing, 1)
	for _, verb := range []string{"INSERT INTO", "UPDATE", "DELETE FROM"} {
		require.GreaterOrEqual(t, strings.Count(writing[0].sql, verb), len(storage.Collections()), verb)
	}
	require.Len(t, commit.Versions, 4*len(storage.Collections()))

	for _, c := range storage.Collections() {
		require.Equal(t, 5, scalar[int](l, "SELECT count(*) FROM runlane."+postgres.TableName(c)), "%v", c)
	}
}

// TestOneTransaction lets a transaction that was told of nothing before it write to
// every collection, append and wake. Its rows have one transaction id, and the
// server has given out no other.
func TestOneTransaction(t *testing.T) {
	cluster := pgtest.Private(t, pgtest.Options{Volatile: true, Settings: map[string]string{"autovacuum": "off"}})
	db := pgtest.New(t, pgtest.On(cluster))
	pool := db.Pool(t)
	d, err := postgres.New(pool, postgres.Config{})
	require.NoError(t, err)
	stream, err := codec.ObservationHeadKey("prod", "s")
	require.NoError(t, err)
	next := func() (xid int64) {
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").Scan(&xid))
		return xid
	}
	write := func(id string, before func(ctx context.Context, tx storage.Tx)) {
		_, err := d.Transact(t.Context(), "lab", func(ctx context.Context, tx storage.Tx) error {
			before(ctx, tx)
			for _, c := range storage.Collections() {
				if err := tx.Create(ctx, plain(item(c, id))); err != nil {
					return err
				}
			}
			if err := tx.Append(ctx, stream, []byte(`1`), []byte(`2`)); err != nil {
				return err
			}
			return tx.Wake("topic")
		})
		require.NoError(t, err)
	}
	write("first", func(context.Context, storage.Tx) {})

	for name, before := range map[string]func(ctx context.Context, tx storage.Tx){
		"implicit": func(context.Context, storage.Tx) {},
		"explicit": func(ctx context.Context, tx storage.Tx) {
			_, err := tx.Now(ctx)
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			xid := next()
			write(name, before)
			require.Equal(t, xid+1, next(), "transaction ids given out")
			for _, c := range storage.Collections() {
				var n int
				table := "runlane." + postgres.TableName(c)
				require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM "+table+" WHERE xmin::text = $1", fmt.Sprint(xid)).Scan(&n))
				require.GreaterOrEqual(t, n, 1, table)
			}
		})
	}
}

// TestNewSendsNothing makes a driver on a database whose ledger is missing and finds
// that nobody asked for it.
func TestNewSendsNothing(t *testing.T) {
	l := newLab(t, postgres.Config{})
	l.exec("DROP TABLE runlane.atlas_schema_revisions")
	require.Empty(t, l.tap.take(), "making the driver sent something")
	require.Zero(t, scalar[int](l, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"))

	objects := "SELECT count(*)::text || ' ' || coalesce(max(oid), 0)::text FROM pg_class"
	before := scalar[string](l, objects)
	l.transact(creates(plain(slot("a"))))
	_, err := l.d.ListRuns(t.Context(), storage.RunFilter{Environment: "prod"})
	require.NoError(t, err)
	requireFit(t, l.d)
	for _, s := range l.tap.take() {
		for _, word := range []string{"atlas_schema_revisions", "CREATE ", "ALTER ", "DROP "} {
			require.NotContains(t, s.sql, word)
		}
	}
	require.Equal(t, before, scalar[string](l, objects))
}

// TestPreparedStatements runs 10,000 transactions, no two of them alike, on one
// connection. The server keeps a statement for each shape, not for each transaction;
// and when a program makes more shapes than the client keeps, the oldest go.
func TestPreparedStatements(t *testing.T) {
	const kept = 512 // pgx's default
	l := newLab(t, postgres.Config{}, func(c *pgxpool.Config) { c.MaxConns, c.ConnConfig.Tracer = 1, nil })
	prepared := func() (n int) {
		require.NoError(t, l.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_prepared_statements", pgx.QueryExecModeSimpleProtocol).Scan(&n))
		return n
	}
	var n int
	next := func(c storage.Collection) storage.Record {
		n++
		rec := plain(item(c, fmt.Sprint(n)))
		rec.Document = []byte(fmt.Sprintf(`{"n":%d}`, n))
		if c == storage.Runs {
			rec.Entries = []storage.Entry{dueIn(fmt.Sprint(n), fmt.Sprint(n))}
		}
		return rec
	}
	different := func(i int) {
		recs := []storage.Record{next(storage.Runs)}
		for range i % 17 {
			recs = append(recs, next(storage.Runs))
		}
		switch i % 10 {
		case 0:
			l.transact(creates(append(recs, next(storage.QueueSlots))...))
			l.transact(replaces(recs...))
		case 1:
			l.transact(queries(storage.Query{Index: storage.RunsByDue, Partition: recs[0].Entries[0].Partition, Limit: i%500 + 1}))
		case 2:
			l.transact(creates(recs[0]))
		default:
			var keys []storage.Key
			for _, rec := range recs {
				keys = append(keys, rec.Key)
			}
			l.transact(reads(keys...))
		}
	}
	for i := range 200 {
		different(i)
	}
	few := prepared()
	require.Less(t, few, 30)
	for i := range 10_000 {
		different(i)
	}
	require.Equal(t, few, prepared(), "statements of 10,000 transactions")

	for shape := 1; shape < kept+100; shape++ {
		var keys []storage.Key
		for bit, c := range storage.Collections() {
			if shape>>bit&1 == 1 {
				keys = append(keys, item(c, "x"))
			}
		}
		l.transact(reads(keys...))
	}
	require.Greater(t, prepared(), few)
	require.LessOrEqual(t, prepared(), kept)
}

// received counts the bytes that a pool's connections receive.
type received struct{ bytes atomic.Int64 }

func (r *received) count(config *pgxpool.Config) {
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &receivingConn{conn, r}, err
	}
}

type receivingConn struct {
	net.Conn
	r *received
}

func (c *receivingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.r.bytes.Add(int64(n))
	return n, err
}

// TestSealMovesNoDocuments reads documents of 300 kB and then locks them.
func TestSealMovesNoDocuments(t *testing.T) {
	var r received
	l := newLab(t, postgres.Config{}, r.count)
	big := plain(slot("big"))
	big.Document = []byte(`"` + strings.Repeat("x", 100_000) + `"`)
	_, runRecords := newRun(t, "big", `"`+strings.Repeat("y", 200_000)+`"`)
	l.transact(creates(append(runRecords, big)...))
	for range 2 { // the first time prepares the statements
		l.transact(func(ctx context.Context, tx storage.Tx) error {
			before := r.bytes.Load()
			_, err := tx.GetMany(ctx, []storage.Key{big.Key, runRecords[0].Key})
			require.NoError(t, err)
			require.Greater(t, r.bytes.Load()-before, int64(300_000), "the reads")

			before = r.bytes.Load()
			_, err = tx.Now(ctx)
			require.NoError(t, err)
			require.Less(t, r.bytes.Load()-before, int64(5_000), "the locks")

			before = r.bytes.Load()
			found, err := tx.GetMany(ctx, []storage.Key{big.Key, runRecords[0].Key})
			require.NoError(t, err)
			require.Len(t, found, 2)
			require.Equal(t, before, r.bytes.Load(), "what is cached is not read again")
			return nil
		})
	}
}
