package storagetest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/keys"
)

// patience bounds a test that hangs; none waits for it.
const patience = 2 * time.Minute

// fixture is what a test gets: a store of its own and short words for using it.
type fixture struct {
	*testing.T
	store storage.Driver
	ctx   context.Context // ends with the test
	brief bool            // Options.Brief
}

func newFixture(t *testing.T, open Open, o Options) *fixture {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	f := &fixture{T: t, store: open(t), ctx: ctx, brief: o.Brief}
	t.Cleanup(func() {
		if err := f.store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return f
}

// rounds is how often a test repeats what it can find in any round: whole times, or a
// quarter of them in a brief run.
func (f *fixture) rounds(whole int) int {
	if f.brief {
		return max(whole/4, 1)
	}
	return whole
}

// transact runs a transaction that the test expects to commit.
func (f *fixture) transact(body func(c *call)) storage.Commit {
	f.Helper()
	commit, err := f.try(body)
	require.NoError(f, err)
	return commit
}

// try runs a transaction.
func (f *fixture) try(body func(c *call)) (storage.Commit, error) {
	return transact(f.ctx, f.store, label, body)
}

// label is the label of every transaction that does not choose another.
const label = "storagetest"

func transact(ctx context.Context, store storage.Transactor, label string, body func(c *call)) (storage.Commit, error) {
	attempt := 0
	return store.Transact(ctx, label, func(ctx context.Context, tx storage.Tx) (err error) {
		attempt++
		defer func() {
			// stop ends a callback from within; anything else is a real panic.
			if p := recover(); p != nil {
				s, ok := p.(stopped)
				if !ok {
					panic(p)
				}
				err = s.err
			}
		}()
		body(&call{Context: ctx, tx: tx, attempt: attempt})
		return nil
	})
}

// pending is a transaction that runs in another goroutine.
type pending struct {
	f      *fixture
	done   chan struct{}
	commit storage.Commit
	err    error
}

// start begins a transaction beside the one that is running.
func (f *fixture) start(body func(c *call)) *pending { return f.startIn(f.ctx, body) }

// startIn is start under a context of the test's own.
func (f *fixture) startIn(ctx context.Context, body func(c *call)) *pending {
	p := &pending{f: f, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.commit, p.err = transact(ctx, f.store, label, body)
	}()
	return p
}

// wait returns the outcome.
func (p *pending) wait() (storage.Commit, error) {
	<-p.done
	return p.commit, p.err
}

// commits waits for a transaction that the test expects to commit. It is called by
// the test's own goroutine.
func (p *pending) commits() storage.Commit {
	p.f.Helper()
	commit, err := p.wait()
	require.NoError(p.f, err)
	return commit
}

// aside runs a whole transaction while another one is in its callback, as if
// another process did.
func (f *fixture) aside(body func(c *call)) {
	f.Helper()
	if _, err := f.start(body).wait(); err != nil {
		f.Errorf("the transaction aside failed: %v", err)
	}
}

// put creates one record, or replaces it, in a transaction of its own.
func (f *fixture) put(rec storage.Record) storage.Record {
	f.Helper()
	commit := f.transact(func(c *call) { c.put(rec) })
	rec.Version = commit.Versions[rec.Key]
	return rec
}

// read returns a record as it is committed, nil if it is absent.
func (f *fixture) read(key storage.Key) *storage.Record {
	f.Helper()
	var got *storage.Record
	f.transact(func(c *call) {
		got = nil
		if rec, found := c.get(key); found {
			got = &rec
		}
	})
	return got
}

// holds requires that the record is committed with that document.
func (f *fixture) holds(key storage.Key, document string) {
	f.Helper()
	rec := f.read(key)
	require.NotNil(f, rec, "%s is absent", key)
	sameJSON(f, document, rec.Document)
}

func (f *fixture) absent(key storage.Key) {
	f.Helper()
	require.Nil(f, f.read(key), "%s is present", key)
}

// env is the environment of a test that needs only one.
const env = "env"

// encode is the encoding of a tuple of strings.
func encode(parts ...string) string {
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

func encodeTime(t time.Time) string {
	text, err := keys.EncodeTime(t)
	if err != nil {
		panic(err)
	}
	return text
}

// keyOf names a record of the environment env.
func keyOf(c storage.Collection, id ...string) storage.Key {
	return storage.Key{Collection: c, Partition: encode(env), ID: encode(id...)}
}

// slot names a record of a collection that nothing is special about.
func slot(id string) storage.Key { return keyOf(storage.QueueSlots, id) }

// number is a record that holds a number.
func number(key storage.Key, n int) storage.Record {
	return storage.Record{Key: key, Document: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}
}

// numberIn is the number that a record holds.
func numberIn(rec storage.Record) int {
	var v struct{ N int }
	if err := json.Unmarshal(rec.Document, &v); err != nil {
		panic(fmt.Sprintf("the document %s is not one of ours: %v", rec.Document, err))
	}
	return v.N
}

// entry places a record of the environment env in an index.
func entry(ix storage.Index, sort string, partition ...string) storage.Entry {
	return storage.Entry{Index: ix, Partition: partitionOf(partition...), Sort: sort}
}

// partitionOf is a partition of an index within the environment env.
func partitionOf(more ...string) string { return encode(append([]string{env}, more...)...) }

// meeting is a point at which a number of goroutines wait for each other, once.
type meeting struct {
	missing atomic.Int32
	open    chan struct{}
}

func newMeeting(of int) *meeting {
	m := &meeting{open: make(chan struct{})}
	m.missing.Store(int32(of))
	return m
}

// wait returns when all have come.
func (m *meeting) wait(c *call) {
	if m.missing.Add(-1) == 0 {
		close(m.open)
	}
	signal(m.open).wait(c)
}

// signal is an event that one goroutine causes and others wait for.
type signal chan struct{}

func (s signal) wait(c *call) {
	select {
	case <-s:
	case <-c.Done():
		c.stop(c.Err())
	}
}
