package play

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/tests/histories/history"
	"github.com/seed4391e180/runlane/tests/histories/record"
)

// Options describe one history.
type Options struct {
	About        string
	Seed         uint64
	Environment  string // every key of the history is within it
	Clients      int
	Transactions int
	// The size of the space: slots and runs are in an index, owners in none; pairs are
	// a canonical run each and its first event.
	Slots, Runs, Owners, Pairs, Streams int
	// Evidence makes every script that writes create one record which nobody touches
	// afterwards, so that its outcome can be found out.
	Evidence bool
	// Lasting lets scripts delete no runs and no events: drivers may rely on these to
	// last, when they look for the outcome of a commit that created one.
	Lasting bool
	// Cancel is the share of transactions whose context may end on the way.
	Cancel float64
	// Faults says that the store is being disturbed.
	Faults bool
	// MaxAttempts is the store's.
	MaxAttempts int
	// Before is called by a client before each transaction, with how many were begun
	// before; it may block until the store is there. nil is nothing.
	Before func(ctx context.Context, begun int) error
}

// Play runs the clients of one history and records what happens.
type Play struct {
	o        Options
	space    *space
	recorder *record.Recorder
	begun    atomic.Int64
}

// New makes a play.
func New(o Options) (*Play, error) {
	s, err := newSpace(o)
	if err != nil {
		return nil, err
	}
	about := history.History{About: o.About, Seed: o.Seed, MaxAttempts: o.MaxAttempts, Faults: o.Faults}
	return &Play{o: o, space: s, recorder: record.New(about, s.pairs)}, nil
}

// History returns what was recorded. Nothing may be running.
func (p *Play) History() *history.History { return p.recorder.History() }

// Run has the clients run all transactions against a store.
func (p *Play) Run(ctx context.Context, store storage.Transactor) error {
	var clients sync.WaitGroup
	errs := make([]error, p.o.Clients)
	for i := range p.o.Clients {
		clients.Go(func() { errs[i] = p.client(ctx, store, i) })
	}
	clients.Wait()
	return errors.Join(errs...)
}

// client runs one transaction after the other until all have begun. Its scripts
// depend on the seed alone; what it knows depends on what happened.
func (p *Play) client(ctx context.Context, store storage.Transactor, number int) error {
	known := make(map[storage.Key]storage.Record)
	for op := 0; ; op++ {
		begun := p.begun.Add(1)
		if int(begun) > p.o.Transactions {
			return nil
		}
		if p.o.Before != nil {
			if err := p.o.Before(ctx, int(begun)-1); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		r := rand.New(rand.NewPCG(p.o.Seed, uint64(number)<<32|uint64(op)))
		a := &author{space: p.space, Rand: r, known: known}
		p.transact(ctx, store, number, op, a, known)
	}
}

func (p *Play) transact(ctx context.Context, store storage.Transactor, number, op int, a *author, known map[storage.Key]storage.Record) {
	s := a.draw()
	if p.o.Evidence && s.writes {
		evidence := p.space.evidence(number, op)
		create := func(ctx context.Context, tx *record.Tx) error { return tx.Create(ctx, evidence) }
		s.steps = slices.Insert(s.steps, max(0, len(s.steps)-1), create)
	}
	call := record.Call{Client: number, Op: op, Label: s.label, Canceled: a.chance(p.o.Cancel)}
	// Either the callback ends the context at one of its steps, or a timer does while
	// the commit is under way.
	inside, delay := a.chance(0.3), time.Duration(a.IntN(3000))*time.Microsecond
	at := a.IntN(len(s.steps))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	commit, view, err := p.recorder.Transact(ctx, store, call, func(ctx context.Context, tx *record.Tx) error {
		for i, st := range s.steps {
			if call.Canceled && inside && i == at {
				cancel()
			}
			if err := st(ctx, tx); err != nil {
				return err
			}
		}
		if call.Canceled && !inside {
			time.AfterFunc(delay, cancel)
		}
		return nil
	})
	if err != nil {
		return
	}
	for _, rec := range record.Remember(view, commit) {
		known[rec.Key] = rec
	}
	for _, appended := range commit.Appended {
		p.space.appended(appended)
	}
}

// appended notes how far a stream has come.
func (s *space) appended(a storage.Appended) {
	for _, st := range s.streams {
		if st.head == a.Head {
			for last := st.last.Load(); last < a.Last && !st.last.CompareAndSwap(last, a.Last); last = st.last.Load() {
			}
		}
	}
}

func (s *space) positions(st *stream, from, until int64) ([]storage.Key, error) {
	var some []storage.Key
	for position := from; position <= until; position++ {
		key, err := codec.ObservationKey(s.environment, st.name, position)
		if err != nil {
			return nil, err
		}
		some = append(some, key)
	}
	return some, nil
}

// auditor is the client that reads everything at the end.
const auditor = 1 << 12

// chunk is how many keys the auditor reads in one transaction.
const chunk = 2000

// Settle notes that nothing of what the clients began can take effect any more.
func (p *Play) Settle() { p.recorder.Settle() }

// Audit reads every key of the history, so that everything that took effect shows.
func (p *Play) Audit(ctx context.Context, store storage.Transactor) error {
	op := 0
	read := func(some []storage.Key) error {
		for part := range slices.Chunk(some, chunk) {
			call := record.Call{Client: auditor, Op: op, Label: "audit"}
			op++
			_, _, err := p.recorder.Transact(ctx, store, call, func(ctx context.Context, tx *record.Tx) error {
				return tx.Get(ctx, true, part...)
			})
			if err != nil {
				return fmt.Errorf("the audit: %w", err)
			}
		}
		return nil
	}
	heads := make([]storage.Key, 0, len(p.space.streams))
	for _, st := range p.space.streams {
		heads = append(heads, st.head)
	}
	if err := read(slices.Concat(p.space.keys, heads)); err != nil {
		return err
	}
	var rest []storage.Key
	h := p.recorder.History()
	for _, st := range p.space.streams {
		some, err := p.space.positions(st, 1, highest(h, st)+1)
		if err != nil {
			return err
		}
		rest = append(rest, some...)
	}
	for _, t := range h.Transactions {
		if p.o.Evidence && t.Client != auditor && t.Label != "read" {
			rest = append(rest, p.space.evidence(t.Client, t.Op))
		}
	}
	return read(rest)
}

// highest is the last position of a stream that the history knows of.
func highest(h *history.History, st *stream) (last int64) {
	head := record.Name(st.head)
	for _, t := range h.Transactions {
		for _, s := range t.Appended {
			if s.Head == head {
				last = max(last, s.Last)
			}
		}
		if t.Client != auditor {
			continue
		}
		for _, op := range t.Last().Ops {
			for _, r := range op.Reads {
				if n, err := strconv.ParseInt(r.Value, 10, 64); err == nil && r.Key == head {
					last = max(last, n)
				}
			}
		}
	}
	return last
}
