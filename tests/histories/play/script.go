package play

import (
	"context"
	"math/rand/v2"
	"runtime"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/keys"
	"github.com/seed4391e180/runlane/tests/histories/check"
	"github.com/seed4391e180/runlane/tests/histories/record"
)

// step is one thing that a callback does. Everything random about it was drawn
// before, so that a replay does the same again, as far as it sees the same.
type step func(ctx context.Context, tx *record.Tx) error

// script is the callback of one transaction.
type script struct {
	label  string
	writes bool
	steps  []step
}

// author draws scripts.
type author struct {
	*space
	*rand.Rand
	known map[storage.Key]storage.Record // what the client could assume
	s     script
}

func (a *author) add(st step)           { a.s.steps = append(a.s.steps, st) }
func (a *author) chance(p float64) bool { return a.Float64() < p }
func (a *author) some() []storage.Key   { return a.pick(a.Rand, 2+a.IntN(4)) }
func (a *author) maybe(p float64, f step) { // draws whether a step is there at all
	if a.chance(p) {
		a.add(f)
	}
}

// draw draws one script.
func (a *author) draw() script {
	kinds := []struct {
		label string
		share float64
		draw  func()
	}{
		{"update", 0.34, a.update}, {"read", 0.2, a.readOnly}, {"claim", 0.14, a.claim}, {"candidates", 0.1, a.candidates},
		{"assume", 0.12, a.assume}, {"blind", 0.06, a.blind}, {"stream", 0.04, a.stream},
	}
	coin := a.Float64()
	for _, k := range kinds {
		if coin -= k.share; coin < 0 {
			a.s = script{label: k.label, writes: k.label != "read"}
			k.draw()
			break
		}
	}
	return a.s
}

// update reads some keys and writes some of them.
func (a *author) update() {
	some := a.some()
	a.maybe(0.1, a.peek(some))
	a.maybe(0.08, a.page(a.anIndex(), storage.Candidates, 50, nil))
	promised := a.reads(some, 0.25)
	a.pause()
	a.maybe(0.25, now)
	wrote := false
	for i, key := range some {
		if !promised[key] && (a.chance(0.6) || !wrote && i == len(some)-1) {
			a.add(a.write(key))
			wrote = true
		}
	}
	a.extras()
	a.maybe(0.07, refuse)
}

// reads reads keys in one call, each in its own, or in two. Some are promised to be
// only read.
func (a *author) reads(some []storage.Key, promise float64) map[storage.Key]bool {
	promised := make(map[storage.Key]bool)
	var only, free []storage.Key
	for _, key := range some {
		if a.chance(promise) {
			promised[key] = true
			only = append(only, key)
		} else {
			free = append(free, key)
		}
	}
	a.split(true, only)
	a.split(false, free)
	return promised
}

// split reads keys in one of the ways of reads.
func (a *author) split(readOnly bool, some []storage.Key) {
	switch way := a.IntN(3); {
	case len(some) == 0:
	case way == 0:
		a.add(a.get(readOnly, some...))
	case way == 1 && len(some) > 1:
		at := 1 + a.IntN(len(some)-1)
		a.add(a.get(readOnly, some[:at]...))
		a.add(a.get(readOnly, some[at:]...))
	default:
		for _, key := range some {
			a.add(a.get(readOnly, key))
		}
	}
}

// readOnly writes nothing, and is refused now and then, which must make no difference
// to what it saw.
func (a *author) readOnly() {
	some := a.some()
	a.reads(some, 0.2)
	a.maybe(0.15, a.page(a.anIndex(), storage.Candidates, 50, nil))
	a.pause()
	a.maybe(0.3, a.get(false, some[0])) // once more
	a.maybe(0.15, now)
	a.maybe(0.03, wake)
	a.maybe(0.25, refuse)
}

// claim takes what an exclusive query gives it.
func (a *author) claim() {
	var claimed []storage.Key
	a.add(func(context.Context, *record.Tx) error { claimed = nil; return nil })
	a.maybe(0.1, a.blindly(a.pick(a.Rand, 1)[0]))
	a.add(a.page(a.anIndex(), storage.Exclusive, 1+a.IntN(3), &claimed))
	a.maybe(0.25, a.page(a.anIndex(), storage.Exclusive, 1+a.IntN(2), &claimed))
	a.maybe(0.3, a.get(a.chance(0.3), a.pick(a.Rand, 1)...))
	a.pause()
	a.maybe(0.5, now)
	a.maybe(0.1, a.page(a.anIndex(), storage.Exclusive, 1, &claimed))
	for at := range 3 {
		a.maybe(0.85, a.writeOf(&claimed, at))
	}
	a.extras()
	a.maybe(0.07, refuse)
}

// candidates reads a page that it does not depend on, then some of what is there.
func (a *author) candidates() {
	var found []storage.Key
	picks := []int{a.IntN(8), a.IntN(8)}
	a.add(func(context.Context, *record.Tx) error { found = nil; return nil })
	a.add(a.page(a.anIndex(), storage.Candidates, 1+a.IntN(8), &found))
	for _, at := range picks {
		a.add(func(ctx context.Context, tx *record.Tx) error {
			if len(found) == 0 {
				return nil
			}
			return tx.Get(ctx, false, found[at%len(found)])
		})
	}
	a.add(a.get(false, a.pick(a.Rand, 1)...))
	a.pause()
	for _, at := range picks {
		a.maybe(0.7, a.writeOf(&found, at))
	}
	a.extras()
}

// assume offers what the client knows, and reads what it does not.
func (a *author) assume() {
	some := a.some()
	for _, key := range some {
		rec, known := a.known[key]
		if !known {
			a.add(a.get(false, key))
			continue
		}
		a.add(func(ctx context.Context, tx *record.Tx) error { return tx.Assume(ctx, rec) })
	}
	a.maybe(0.15, now)
	for _, key := range some {
		a.maybe(0.6, a.write(key))
	}
	a.extras()
	a.maybe(0.07, refuse)
}

// blind creates without reading, perhaps after a look.
func (a *author) blind() {
	some := a.some()
	a.maybe(0.5, a.peek(some))
	a.maybe(0.3, a.get(false, some[1:]...))
	a.maybe(0.2, now)
	a.add(a.blindly(some[0]))
	a.extras()
}

// stream reads near the end of a stream, by position and by index, and depends on
// its head now and then.
func (a *author) stream() {
	if len(a.streams) == 0 {
		a.update()
		return
	}
	st := a.streams[a.IntN(len(a.streams))]
	a.maybe(0.4, a.get(a.chance(0.5), st.head))
	a.maybe(0.7, a.tail(st))
	a.add(a.get(false, a.some()...))
	a.add(a.observations(st))
	a.extras()
	a.maybe(0.2, refuse)
}

// extras are what any writing script may do on top.
func (a *author) extras() {
	a.maybe(0.08, a.blindly(a.pick(a.Rand, 1)[0]))
	a.maybe(0.04, wake)
	if len(a.streams) > 0 && a.chance(0.15) {
		st, items := a.streams[a.IntN(len(a.streams))], 1+a.IntN(3)
		a.add(func(ctx context.Context, tx *record.Tx) error {
			if s := tx.Seen(st.head); s != nil && s.ReadOnly {
				return nil
			}
			return tx.Append(ctx, st.head, items)
		})
	}
}

// pause lets others go first now and then.
func (a *author) pause() {
	n := a.IntN(4)
	a.add(func(context.Context, *record.Tx) error {
		for range n {
			runtime.Gosched()
		}
		return nil
	})
}

func (a *author) get(readOnly bool, some ...storage.Key) step {
	return func(ctx context.Context, tx *record.Tx) error { return tx.Get(ctx, readOnly, some...) }
}

func (a *author) peek(some []storage.Key) step {
	return func(ctx context.Context, tx *record.Tx) error { return tx.Peek(ctx, some...) }
}

// index is a part of an index that scripts query.
type index struct {
	name      string
	of        storage.Index
	partition string
}

// anIndex draws one of those in use.
func (a *author) anIndex() index {
	n := a.IntN(5)
	switch {
	case n == 0 && len(a.pairs) > 0:
		p := a.pairs[a.IntN(len(a.pairs))]
		return index{p.HistoryIndex(), storage.RunEventsBySequence, p.Partition}
	case n%2 == 0:
		return index{storage.QueueSlotsByExpiry.String(), storage.QueueSlotsByExpiry, a.slots}
	}
	return index{storage.RunsByDue.String(), storage.RunsByDue, a.due}
}

// page asks an index and adds what it finds to found.
func (a *author) page(ix index, lock storage.Lock, limit int, found *[]storage.Key) step {
	q := storage.Query{Index: ix.of, Partition: ix.partition, Limit: limit, Lock: lock}
	if a.chance(0.3) {
		q.Direction = storage.Descending
	}
	if a.chance(0.2) {
		q.From = storage.At(keys.EncodeInt(int64(a.IntN(100))))
	}
	return func(ctx context.Context, tx *record.Tx) error {
		some, err := tx.Query(ctx, ix.name, q)
		if found != nil {
			*found = append(*found, some...)
		}
		return err
	}
}

// tail asks for the end of a stream.
func (a *author) tail(st *stream) step {
	back := int64(a.IntN(20))
	return func(ctx context.Context, tx *record.Tx) error {
		q := storage.Query{Index: storage.ObservationsByPosition, Partition: st.partition, Limit: 50}
		if from := st.last.Load() - back; from > 1 {
			q.From = storage.At(keys.EncodeInt(from))
		}
		_, err := tx.Query(ctx, check.ByPosition+st.name, q)
		return err
	}
}

// observations reads around the end of a stream by key.
func (a *author) observations(st *stream) step {
	back := int64(a.IntN(3))
	return func(ctx context.Context, tx *record.Tx) error {
		from := max(1, st.last.Load()-back)
		some, err := a.positions(st, from, from+3)
		if err != nil {
			return err
		}
		return tx.Get(ctx, false, some...)
	}
}

// change is what a script does with a key once it knows what is there.
type change struct {
	coin, place float64
	keep        bool
}

func (a *author) change() change {
	return change{coin: a.Float64(), place: a.Float64(), keep: a.chance(0.5)}
}

func (a *author) write(key storage.Key) step {
	c := a.change()
	return func(ctx context.Context, tx *record.Tx) error { return c.apply(ctx, tx, a.space, key) }
}

// writeOf writes one of the keys that the script found on its way.
func (a *author) writeOf(found *[]storage.Key, at int) step {
	c := a.change()
	return func(ctx context.Context, tx *record.Tx) error {
		if at >= len(*found) {
			return nil
		}
		return c.apply(ctx, tx, a.space, (*found)[at])
	}
}

// apply replaces or deletes what is present, creates what is absent, and leaves alone
// what was promised or never read.
func (c change) apply(ctx context.Context, tx *record.Tx, sp *space, key storage.Key) error {
	entries := sp.entries(key, c.place)
	s := tx.Seen(key)
	switch {
	case s == nil || s.ReadOnly:
		return nil
	case !s.Present:
		if err := tx.Create(ctx, key, entries...); err != nil || c.coin < 0.92 || !sp.deletes(key) {
			return err
		}
		return tx.Delete(ctx, key)
	case c.coin < 0.66 || !sp.deletes(key):
		return tx.Replace(ctx, key, c.keep, entries...)
	case c.coin < 0.7:
		if err := tx.Replace(ctx, key, c.keep, entries...); err != nil {
			return err
		}
		return tx.Replace(ctx, key, !c.keep, entries...)
	}
	if err := tx.Delete(ctx, key); err != nil || c.coin < 0.93 {
		return err
	}
	return tx.Create(ctx, key, entries...)
}

// blindly creates a key unless it was read present.
func (a *author) blindly(key storage.Key) step {
	entries := a.entries(key, a.Float64())
	return func(ctx context.Context, tx *record.Tx) error {
		if s := tx.Seen(key); s != nil && (s.Present || s.ReadOnly) {
			return nil
		}
		return tx.Create(ctx, key, entries...)
	}
}

func now(ctx context.Context, tx *record.Tx) error { return tx.Now(ctx) }
func wake(_ context.Context, tx *record.Tx) error  { return tx.Wake("topic") }
func refuse(context.Context, *record.Tx) error     { return record.ErrRefused }
