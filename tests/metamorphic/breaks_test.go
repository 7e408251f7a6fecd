package metamorphic_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// broken is a store with one thing wrong.
type broken struct {
	storage.Driver
	tx     func(tx storage.Tx) storage.Tx
	commit func(c *storage.Commit)
	failed func(err error) error
	getRun func(r run.Run, found bool) (run.Run, bool)
	events func(p *storage.EventPage)
}

func (b *broken) Transact(ctx context.Context, label string, fn func(context.Context, storage.Tx) error) (storage.Commit, error) {
	commit, err := b.Driver.Transact(ctx, label, func(ctx context.Context, tx storage.Tx) error {
		if b.tx != nil {
			tx = b.tx(tx)
		}
		return fn(ctx, tx)
	})
	if err == nil && b.commit != nil {
		b.commit(&commit)
	}
	if err != nil && b.failed != nil {
		err = b.failed(err)
	}
	return commit, err
}

func (b *broken) GetRun(ctx context.Context, environment, id string) (run.Run, bool, error) {
	r, found, err := b.Driver.GetRun(ctx, environment, id)
	if b.getRun != nil {
		r, found = b.getRun(r, found)
	}
	return r, found, err
}

func (b *broken) ListEvents(ctx context.Context, f storage.EventFilter) (storage.EventPage, error) {
	page, err := b.Driver.ListEvents(ctx, f)
	if b.events != nil {
		b.events(&page)
	}
	return page, err
}

// brokenTx is a transaction with one method that does something else.
type brokenTx struct {
	storage.Tx
	get    func(ctx context.Context, keys []storage.Key) (map[storage.Key]storage.Record, error)
	peek   func(ctx context.Context, keys []storage.Key) (map[storage.Key]storage.Record, error)
	assume func(ctx context.Context, rec storage.Record) (storage.Record, bool, error)
	query  func(ctx context.Context, q storage.Query) (storage.Page, error)
	write  func(rec storage.Record) storage.Record
	remove func(ctx context.Context, key storage.Key) error
}

func (b *brokenTx) GetMany(ctx context.Context, keys []storage.Key, mode ...storage.ReadMode) (map[storage.Key]storage.Record, error) {
	if b.get != nil {
		return b.get(ctx, keys)
	}
	return b.Tx.GetMany(ctx, keys, mode...)
}

func (b *brokenTx) Peek(ctx context.Context, keys []storage.Key) (map[storage.Key]storage.Record, error) {
	if b.peek != nil {
		return b.peek(ctx, keys)
	}
	return b.Tx.Peek(ctx, keys)
}

func (b *brokenTx) Assume(ctx context.Context, rec storage.Record) (storage.Record, bool, error) {
	if b.assume != nil {
		return b.assume(ctx, rec)
	}
	return b.Tx.Assume(ctx, rec)
}

func (b *brokenTx) Query(ctx context.Context, q storage.Query) (storage.Page, error) {
	if b.query != nil {
		return b.query(ctx, q)
	}
	return b.Tx.Query(ctx, q)
}

func (b *brokenTx) Replace(ctx context.Context, rec storage.Record) error {
	if b.write != nil {
		rec = b.write(rec)
	}
	return b.Tx.Replace(ctx, rec)
}

func (b *brokenTx) Delete(ctx context.Context, key storage.Key) error {
	if b.remove != nil {
		return b.remove(ctx, key)
	}
	return b.Tx.Delete(ctx, key)
}

// breaking wraps every transaction of a store.
func breaking(change func(b *brokenTx)) func(d storage.Driver) *broken {
	return func(d storage.Driver) *broken {
		return &broken{Driver: d, tx: func(tx storage.Tx) storage.Tx {
			b := &brokenTx{Tx: tx}
			change(b)
			return b
		}}
	}
}

// breaks are stores that the comparison must tell from one that works.
var breaks = map[string]func(d storage.Driver) *broken{
	"a peek is a dependency": breaking(func(b *brokenTx) {
		b.peek = func(ctx context.Context, keys []storage.Key) (map[storage.Key]storage.Record, error) {
			return b.Tx.GetMany(ctx, keys)
		}
	}),
	"a read is no dependency and sees nothing staged": breaking(func(b *brokenTx) {
		b.get = func(ctx context.Context, keys []storage.Key) (map[storage.Key]storage.Record, error) {
			return b.Tx.Peek(ctx, keys)
		}
	}),
	"an assumption is read": breaking(func(b *brokenTx) {
		b.assume = func(ctx context.Context, rec storage.Record) (storage.Record, bool, error) { return rec, true, nil }
	}),
	"pages have another order": breaking(func(b *brokenTx) {
		b.query = func(ctx context.Context, q storage.Query) (storage.Page, error) {
			page, err := b.Tx.Query(ctx, q)
			page.Records = slices.Clone(page.Records)
			slices.Reverse(page.Records)
			return page, err
		}
	}),
	"an exclusive page locks nothing": breaking(func(b *brokenTx) {
		b.query = func(ctx context.Context, q storage.Query) (storage.Page, error) {
			q.Lock = storage.Candidates
			return b.Tx.Query(ctx, q)
		}
	}),
	"the end of a range belongs to it": breaking(func(b *brokenTx) {
		b.query = func(ctx context.Context, q storage.Query) (storage.Page, error) {
			if sort := q.Until.Sort(); sort != "" {
				q.Until = storage.At(sort + "!")
			}
			return b.Tx.Query(ctx, q)
		}
	}),
	"a replacement loses its entries": breaking(func(b *brokenTx) {
		b.write = func(rec storage.Record) storage.Record {
			rec.Entries = nil
			return rec
		}
	}),
	"a deletion is forgotten": breaking(func(b *brokenTx) {
		b.remove = func(context.Context, storage.Key) error { return nil }
	}),
	"a commit reports no versions": func(d storage.Driver) *broken {
		return &broken{Driver: d, commit: func(c *storage.Commit) { c.Versions = nil }}
	},
	"positions begin at 0": func(d storage.Driver) *broken {
		return &broken{Driver: d, commit: func(c *storage.Commit) {
			for i := range c.Appended {
				c.Appended[i].First--
			}
		}}
	},
	"the callback's error is wrapped": func(d storage.Driver) *broken {
		return &broken{Driver: d, failed: func(err error) error { return fmt.Errorf("failed: %w", err) }}
	},
	"operators see payloads of others": func(d storage.Driver) *broken {
		return &broken{Driver: d, getRun: func(r run.Run, found bool) (run.Run, bool) {
			if r.Payload != nil {
				r.Payload = payloads[3]
			}
			return r, found
		}}
	},
	"a page of events ends early": func(d storage.Driver) *broken {
		return &broken{Driver: d, events: func(p *storage.EventPage) {
			if n := len(p.Events); n > 1 {
				p.Events = p.Events[:n-1]
			}
		}}
	},
}

// TestBreaksAreFound: a comparison that finds nothing must be able to.
func TestBreaksAreFound(t *testing.T) {
	const tried = 60
	for name, wrap := range breaks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(tried) {
				s := draw(seed)
				st := inMemory()
				st.Driver = wrap(st.Driver)
				d := (&configuration{manner: oracle.manner}).compare(t.Context(), st, s)
				if d == nil {
					continue
				}
				t.Logf("seed %d:\n%s", seed, d.excerpt())
				return
			}
			t.Errorf("none of %d seeds shows it", tried)
		})
	}
}

// TestShorteningKeepsTheDifference: what a folder holds is small and still differs.
func TestShorteningKeepsTheDifference(t *testing.T) {
	differs := func(s script) bool {
		st := inMemory()
		st.Driver = breaks["positions begin at 0"](st.Driver)
		return (&configuration{manner: oracle.manner}).compare(t.Context(), st, s) != nil
	}
	for seed := range uint64(60) {
		s := draw(seed)
		if !differs(s) {
			continue
		}
		small := shorten(s, differs)
		if !differs(small) {
			t.Fatal("the shorter script has one history")
		}
		if n := len(small.Transactions); n != 1 || len(small.Transactions[0].Ops) != 1 {
			t.Errorf("one append is enough, and not\n%s", small.text())
		}
		return
	}
	t.Fatal(errors.New("no seed appends"))
}
