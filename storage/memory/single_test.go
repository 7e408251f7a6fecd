package memory_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/memory"
	"github.com/seed4391e180/runlane/storage/storagetest"
)

// TestConformanceWithOneConnection proves that what RunSingle leaves in can be run
// by a driver with a single connection: here a token plays the connection, and a
// transaction holds it for as long as a database transaction would be open.
func TestConformanceWithOneConnection(t *testing.T) {
	storagetest.RunSingle(t, func(testing.TB) storage.Driver {
		s := &single{Driver: memory.New(memory.Config{Sleep: reopen}), token: make(chan struct{}, 1)}
		s.token <- struct{}{}
		return s
	})
}

// single is a driver with one connection.
type single struct {
	*memory.Driver
	token chan struct{}
}

func (s *single) take(ctx context.Context) error {
	select {
	case <-s.token:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *single) give() { s.token <- struct{}{} }

func (s *single) Transact(ctx context.Context, label string, fn func(context.Context, storage.Tx) error) (storage.Commit, error) {
	h := &held{single: s}
	defer func() { h.end(); h.over = true }()
	ctx = context.WithValue(ctx, heldKey{}, h)
	return s.Driver.Transact(ctx, label, func(ctx context.Context, tx storage.Tx) error {
		if err := fn(ctx, &singleTx{Tx: tx, held: h}); err != nil {
			return err
		}
		return h.open(ctx)
	})
}

func (s *single) GetRun(ctx context.Context, environment, runID string) (run.Run, bool, error) {
	if err := s.take(ctx); err != nil {
		return run.Run{}, false, err
	}
	defer s.give()
	return s.Driver.GetRun(ctx, environment, runID)
}

// reopen takes the place of the backoff: it ends the attempt before, and opens the
// next one, which begins by waiting for locks.
func reopen(ctx context.Context, _ time.Duration) error {
	h := ctx.Value(heldKey{}).(*held)
	h.end()
	return h.open(ctx)
}

type heldKey struct{}

// held is the token of one transaction.
type held struct {
	single *single
	has    bool
	over   bool // the transaction has ended, and its methods only say so
}

func (h *held) open(ctx context.Context) error {
	if h.has || h.over {
		return nil
	}
	err := h.single.take(ctx)
	h.has = err == nil
	return err
}

func (h *held) end() {
	if h.has {
		h.has = false
		h.single.give()
	}
}

// during has the token until the returned function is called, or for longer if the
// transaction is open. If there is none to be had, ctx has ended, and the call that
// follows says so.
func (h *held) during(ctx context.Context) func() {
	if h.has || h.open(ctx) != nil {
		return func() {}
	}
	return h.end
}

type singleTx struct {
	storage.Tx
	held *held
}

func (t *singleTx) Get(ctx context.Context, key storage.Key, mode ...storage.ReadMode) (storage.Record, bool, error) {
	defer t.held.during(ctx)()
	return t.Tx.Get(ctx, key, mode...)
}

func (t *singleTx) GetMany(ctx context.Context, keys []storage.Key, mode ...storage.ReadMode) (map[storage.Key]storage.Record, error) {
	defer t.held.during(ctx)()
	return t.Tx.GetMany(ctx, keys, mode...)
}

func (t *singleTx) Peek(ctx context.Context, keys []storage.Key) (map[storage.Key]storage.Record, error) {
	defer t.held.during(ctx)()
	return t.Tx.Peek(ctx, keys)
}

func (t *singleTx) Query(ctx context.Context, q storage.Query) (storage.Page, error) {
	done := t.held.during(ctx)
	if q.Lock != storage.Exclusive {
		defer done()
	}
	return t.Tx.Query(ctx, q)
}

func (t *singleTx) Now(ctx context.Context) (time.Time, error) {
	if err := t.held.open(ctx); err != nil {
		return time.Time{}, err
	}
	return t.Tx.Now(ctx)
}
