package storagetest

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/storage"
)

var model = topic{"RandomPrograms", []test{
	{name: "BehaveAsIfOneByOne", run: programsBehaveAsIfOneByOne},
	{name: "KeepPayloadsApart", run: programsKeepPayloadsApart},
	{name: "AppendAmongWriters", run: programsAppendAmongWriters},
}}

// environments numbers the environments of programs, which share a store.
var environments atomic.Int64

// briefPrograms is how many random programs a brief run draws.
const briefPrograms = 5

// programs is rapid.Check; a brief run tries the first few programs alone, and any that
// failed before.
func (f *fixture) programs(try func(t *rapid.T)) {
	left, failed := briefPrograms, false
	rapid.Check(f.T, func(t *rapid.T) {
		if f.brief && left == 0 && !failed {
			return
		}
		passed := false
		defer func() { failed = failed || !passed }() // from then on rapid shrinks the program
		try(t)
		passed = true
		left--
	})
}

// programsBehaveAsIfOneByOne runs random transactions, one after the other, and
// compares everything that they see with a map.
func programsBehaveAsIfOneByOne(f *fixture) {
	f.programs(func(t *rapid.T) {
		m := newWorld(fmt.Sprint("program", environments.Add(1)))
		for i := range rapid.IntRange(1, 8).Draw(t, "transactions") {
			steps := rapid.SliceOfN(rapid.Custom(drawStep), 0, 8).Draw(t, fmt.Sprint("steps ", i))
			fail := rapid.IntRange(0, 3).Draw(t, "end") == 0
			f.runProgram(t, m, steps, fail)
			f.compareWorld(t, m)
		}
	})
}

// step is one call of a method, in a program.
type step struct {
	do    string
	keys  []int // of world.keys
	n     int   // the number to write
	sort  int   // the sort value to write; 0 is no entry
	limit int
	down  bool
}

var stepKinds = []string{
	"get", "get", "getReadOnly", "getMany", "peek", "assume", "assumeOld", "assumeAbsent",
	"create", "create", "replace", "replace", "delete", "query", "queryExclusive", "now", "wake", "append",
}

func drawStep(t *rapid.T) step {
	return step{
		do:    rapid.SampledFrom(stepKinds).Draw(t, "do"),
		keys:  rapid.SliceOfN(rapid.IntRange(0, worldKeys-1), 1, 3).Draw(t, "keys"),
		n:     rapid.IntRange(1, 1000).Draw(t, "n"),
		sort:  rapid.IntRange(0, 3).Draw(t, "sort"),
		limit: rapid.IntRange(1, 4).Draw(t, "limit"),
		down:  rapid.Bool().Draw(t, "down"),
	}
}

const worldKeys = 6

// world is what a store must hold.
type world struct {
	partition string
	keys      [worldKeys]storage.Key
	committed [worldKeys]content
	stream    []string                  // its items
	last      [worldKeys]storage.Record // as it was read last
	old       [worldKeys]storage.Record // as it was read once before
}

// head is of the stream that programs append to.
func (w *world) head() storage.Key {
	return storage.Key{Collection: storage.ObservationHeads, Partition: w.partition, ID: encode("stream")}
}

// content is a record; a zero n is none.
type content struct{ n, sort int }

func (c content) String() string {
	if c.n == 0 {
		return "-"
	}
	return fmt.Sprint(c.n)
}

func newWorld(environment string) *world {
	w := &world{partition: encode(environment)}
	for i, c := range []storage.Collection{storage.Runs, storage.Runs, storage.Runs, storage.RunEvents, storage.QueueSlots, storage.SingletonOwners} {
		w.keys[i] = storage.Key{Collection: c, Partition: w.partition, ID: encode(fmt.Sprint(i))}
	}
	return w
}

func (w *world) record(key, n, sort int) storage.Record {
	rec := number(w.keys[key], n)
	if w.keys[key].Collection == storage.Runs && sort > 0 {
		rec.Entries = []storage.Entry{{Index: storage.RunsByDue, Partition: w.partition, Sort: encode(fmt.Sprint(sort))}}
	}
	return rec
}

// indexed lists what the index holds, in order.
func (w *world) indexed(down bool) []int {
	var at []int
	for i, c := range w.committed {
		if w.keys[i].Collection == storage.Runs && c.n != 0 && c.sort > 0 {
			at = append(at, i)
		}
	}
	slices.SortFunc(at, func(a, b int) int {
		if d := w.committed[a].sort - w.committed[b].sort; d != 0 {
			return d
		}
		return strings.Compare(w.keys[a].ID, w.keys[b].ID)
	})
	if down {
		slices.Reverse(at)
	}
	return at
}

// runProgram runs the steps as one transaction. Only the last attempt counts: what
// it saw must be what the steps see when nobody else is there.
func (f *fixture) runProgram(t *rapid.T, w *world, steps []step, fail bool) {
	var seen []string
	commit, err := f.try(func(c *call) {
		seen = seen[:0]
		for _, s := range steps {
			seen = append(seen, w.perform(c, s))
		}
		if fail {
			c.stop(errStop)
		}
	})
	if fail && err != errStop || !fail && err != nil {
		t.Fatalf("the transaction ended with %v\n%+v", err, steps)
	}
	m := newSession(w)
	for i, s := range steps {
		allowed := m.predict(s, seen[i])
		if !slices.Contains(allowed, seen[i]) {
			t.Fatalf("step %d, %+v: saw %q instead of %q, after\n%s", i, s, seen[i], allowed, strings.Join(seen[:i], "\n"))
		}
	}
	if fail {
		return
	}
	if m.collides() {
		t.Fatalf("a blind Create over a present record was committed: %+v", steps)
	}
	m.apply(t, commit)
}

// perform carries out one step and says what it saw.
func (w *world) perform(c *call, s step) string {
	key := s.keys[0]
	show := func(rec storage.Record, found bool, err error) string {
		switch {
		case err != nil:
			return nameOf(err)
		case !found:
			return "-"
		}
		return fmt.Sprint(numberIn(rec))
	}
	switch s.do {
	case "get":
		return show(c.tx.Get(c, w.keys[key]))
	case "getReadOnly":
		return show(c.tx.Get(c, w.keys[key], storage.ReadOnly))
	case "getMany":
		return w.showMany(s)(c.tx.GetMany(c, w.chosen(s)))
	case "peek":
		return w.showMany(s)(c.tx.Peek(c, w.chosen(s)))
	case "assume", "assumeOld":
		rec := w.last[key]
		if s.do == "assumeOld" {
			rec = w.old[key]
		}
		if rec.Version.IsZero() {
			return show(c.tx.AssumeAbsent(c, w.keys[key]))
		}
		return show(c.tx.Assume(c, rec))
	case "assumeAbsent":
		return show(c.tx.AssumeAbsent(c, w.keys[key]))
	case "create":
		return nameOf(c.tx.Create(c, w.record(key, s.n, s.sort)))
	case "replace":
		return nameOf(c.tx.Replace(c, w.record(key, s.n, s.sort)))
	case "delete":
		return nameOf(c.tx.Delete(c, w.keys[key]))
	case "query", "queryExclusive":
		return w.performQuery(c, s)
	case "now":
		_, err := c.tx.Now(c)
		return nameOf(err)
	case "wake":
		return nameOf(c.tx.Wake("topic"))
	case "append":
		return nameOf(c.tx.Append(c, w.head(), rawItems(s.items())...))
	}
	panic("no such step: " + s.do)
}

// items is what a step appends.
func (s step) items() []string {
	var items []string
	for i := range s.limit {
		items = append(items, fmt.Sprint(s.n+i))
	}
	return items
}

func (w *world) performQuery(c *call, s step) string {
	q := storage.Query{Index: storage.RunsByDue, Partition: w.partition, Limit: s.limit}
	if s.down {
		q.Direction = storage.Descending
	}
	if s.do == "queryExclusive" {
		q.Lock = storage.Exclusive
	}
	page, err := c.tx.Query(c, q)
	if err != nil {
		return nameOf(err)
	}
	var all []string
	for _, rec := range page.Records {
		all = append(all, fmt.Sprint(numberIn(rec)))
	}
	return strings.Join(all, " ")
}

func (w *world) chosen(s step) []storage.Key {
	var keys []storage.Key
	for _, key := range s.keys {
		keys = append(keys, w.keys[key])
	}
	return keys
}

func (w *world) showMany(s step) func(map[storage.Key]storage.Record, error) string {
	return func(found map[storage.Key]storage.Record, err error) string {
		if err != nil {
			return nameOf(err)
		}
		var all []string
		for _, key := range s.keys {
			if rec, ok := found[w.keys[key]]; ok {
				all = append(all, fmt.Sprint(numberIn(rec)))
			} else {
				all = append(all, "-")
			}
		}
		return strings.Join(all, " ")
	}
}

// compareWorld reads everything back.
func (f *fixture) compareWorld(t *rapid.T, w *world) {
	_, err := f.try(func(c *call) {
		found := c.getMany(w.keys[:]...)
		for i, key := range w.keys {
			rec, ok := found[key]
			want := w.committed[i]
			c.want(ok == (want.n != 0) && (!ok || numberIn(rec) == want.n), "%s holds %s instead of %s", key, rec.Document, want)
			if rec.Version != w.last[i].Version {
				w.old[i] = w.last[i]
			}
			w.last[i] = rec
		}
		for _, down := range []bool{false, true} {
			got := w.performQuery(c, step{do: "query", limit: 500, down: down})
			var want []string
			for _, at := range w.indexed(down) {
				want = append(want, w.committed[at].String())
			}
			c.want(got == strings.Join(want, " "), "the index holds %q instead of %q", got, want)
		}
		var items []string
		for _, rec := range c.query(storage.Query{Index: storage.ObservationsByPosition, Partition: w.partition + w.head().ID, Limit: 500}).Records {
			items = append(items, show(rec))
		}
		c.want(slices.Equal(items, w.stream), "the stream holds %q instead of %q", items, w.stream)
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
}
