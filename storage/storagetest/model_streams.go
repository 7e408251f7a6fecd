package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// programsAppendAmongWriters appends to two streams whose heads and items the same
// transactions read, write and delete by key. What is there when the items get their
// positions is what the program's own writes have left.
func programsAppendAmongWriters(f *fixture) {
	f.programs(func(t *rapid.T) {
		w := newStreamWorld(fmt.Sprint("streams", environments.Add(1)))
		for i := range rapid.IntRange(1, 6).Draw(t, "transactions") {
			steps := rapid.SliceOfN(rapid.Custom(drawStreamStep), 0, 7).Draw(t, fmt.Sprint("steps ", i))
			f.runStreamProgram(t, w, steps, rapid.IntRange(0, 5).Draw(t, "end") == 0)
			f.compareStreams(t, w)
		}
	})
}

// streamStep is one step of such a program.
type streamStep struct {
	do     string
	stream int
	at     int64 // a position
	n      int   // what to append or to write
	items  int
}

func drawStreamStep(t *rapid.T) streamStep {
	return streamStep{
		do: rapid.SampledFrom([]string{
			"append", "append", "append", "append", "head", "head read-only", "set head", "drop head", "item", "set item", "drop item", "page", "now",
		}).Draw(t, "do"),
		stream: rapid.IntRange(0, 1).Draw(t, "stream"),
		at:     rapid.Int64Range(1, 6).Draw(t, "at"),
		n:      rapid.IntRange(1, 99).Draw(t, "n"),
		items:  rapid.IntRange(1, 3).Draw(t, "items"),
	}
}

const (
	streamNames   = 2
	lastOfProgram = 200 // no program comes that far
)

// streamWorld is what a store must hold: the positions of heads and the data of items.
type streamWorld struct {
	environment string
	content     map[storage.Key]int64
}

func newStreamWorld(environment string) *streamWorld {
	return &streamWorld{environment: environment, content: map[storage.Key]int64{}}
}

func (w *streamWorld) head(stream int) storage.Key { return headIn(w.environment, fmt.Sprint(stream)) }

func (w *streamWorld) item(stream int, position int64) storage.Key {
	key, err := codec.ObservationKey(w.environment, fmt.Sprint(stream), position)
	if err != nil {
		panic(err)
	}
	return key
}

func (w *streamWorld) page(stream int) storage.Query {
	partition, err := codec.ObservationsPartition(w.environment, fmt.Sprint(stream))
	if err != nil {
		panic(err)
	}
	return storage.Query{Index: storage.ObservationsByPosition, Partition: partition, Limit: 500}
}

// record is the head, or the item, as a program writes it.
func (w *streamWorld) record(s streamStep) storage.Record {
	rec, err := codec.EncodeObservationHead(codec.ObservationHead{Environment: w.environment, Stream: fmt.Sprint(s.stream), Position: s.at})
	if strings.HasSuffix(s.do, "item") {
		o := codec.Observation{Environment: w.environment, Stream: fmt.Sprint(s.stream), Position: s.at, At: epoch, Data: []byte(fmt.Sprint(s.n))}
		rec, err = codec.EncodeObservation(o)
	}
	if err != nil {
		panic(err)
	}
	return rec
}

// show is what a head or an item holds.
func show(rec storage.Record) string {
	if h, kind := codec.DecodeObservationHead(rec); kind == codec.Canonical {
		return fmt.Sprint(h.Position)
	}
	if o, kind := codec.DecodeObservation(rec); kind == codec.Canonical {
		return string(o.Data)
	}
	return "unknown: " + string(rec.Document)
}

// perform carries out one step and says what it saw.
func (w *streamWorld) perform(c *call, s streamStep) string {
	switch s.do {
	case "append":
		var items []string
		for i := range s.items {
			items = append(items, fmt.Sprint(s.n+i))
		}
		return nameOf(c.tx.Append(c, w.head(s.stream), rawItems(items)...))
	case "page":
		page, err := c.tx.Query(c, w.page(s.stream))
		if err != nil {
			return nameOf(err)
		}
		var all []string
		for _, rec := range page.Records {
			all = append(all, show(rec))
		}
		return strings.Join(all, " ")
	case "now":
		_, err := c.tx.Now(c)
		return nameOf(err)
	}
	var mode []storage.ReadMode
	if s.do == "head read-only" {
		mode = append(mode, storage.ReadOnly)
	}
	rec := w.record(s)
	got, found, err := c.tx.Get(c, rec.Key, mode...)
	saw := "-"
	switch {
	case err != nil:
		return nameOf(err)
	case found:
		saw = show(got)
	}
	switch {
	case strings.HasPrefix(s.do, "set") && found:
		err = c.tx.Replace(c, rec)
	case strings.HasPrefix(s.do, "set"):
		err = c.tx.Create(c, rec)
	case strings.HasPrefix(s.do, "drop") && found:
		err = c.tx.Delete(c, rec.Key)
	}
	return saw + " " + nameOf(err)
}

// streamSession is what one transaction of a program must see.
type streamSession struct {
	world    *streamWorld
	staged   map[storage.Key]int64 // absent if negative
	seen     map[storage.Key]bool
	readOnly map[storage.Key]bool
	items    [streamNames][]int64
	order    []int // of the streams, as they were first appended to
	sealed   bool
}

func (m *streamSession) current(key storage.Key) (n int64, present bool) {
	if n, staged := m.staged[key]; staged {
		return n, n >= 0
	}
	n, present = m.world.content[key]
	return n, present
}

func (m *streamSession) predict(s streamStep) string {
	head := m.world.head(s.stream)
	refused := m.readOnly[head]
	switch s.do {
	case "append":
		if refused {
			return "read only"
		}
		if len(m.items[s.stream]) == 0 {
			m.order = append(m.order, s.stream)
		}
		for i := range s.items {
			m.items[s.stream] = append(m.items[s.stream], int64(s.n+i))
		}
		return "ok"
	case "page":
		var all []string
		for position := int64(1); position <= lastOfProgram; position++ {
			if n, present := m.world.content[m.world.item(s.stream, position)]; present {
				all = append(all, fmt.Sprint(n))
			}
		}
		return strings.Join(all, " ")
	case "now":
		m.sealed = true
		return "ok"
	}
	return m.point(s, refused)
}

// point is a read of one key, and the write that follows it. refused says that the head
// may not be written.
func (m *streamSession) point(s streamStep, refused bool) string {
	rec := m.world.record(s)
	if m.sealed && !m.seen[rec.Key] {
		return "sealed"
	}
	m.seen[rec.Key] = true
	n, present := m.current(rec.Key)
	saw := "-"
	if present {
		saw = fmt.Sprint(n)
	}
	_, written := m.staged[rec.Key]
	if s.do == "head read-only" {
		m.readOnly[rec.Key] = m.readOnly[rec.Key] || !written && len(m.items[s.stream]) == 0
	}
	writes := strings.HasPrefix(s.do, "set") || strings.HasPrefix(s.do, "drop") && present
	switch {
	case writes && refused && rec.Key.Collection == storage.ObservationHeads:
		return saw + " read only"
	case strings.HasPrefix(s.do, "set head"):
		m.staged[rec.Key] = s.at
	case strings.HasPrefix(s.do, "set"):
		m.staged[rec.Key] = int64(s.n)
	case writes:
		m.staged[rec.Key] = -1
	}
	return saw + " ok"
}

// extend gives the items their positions. ok is false if one of them is taken.
func (m *streamSession) extend() (appended []storage.Appended, ok bool) {
	for _, stream := range m.order {
		last, _ := m.current(m.world.head(stream)) // 0 for none
		last = max(last, 0)
		a := storage.Appended{Head: m.world.head(stream), First: last + 1, Last: last + int64(len(m.items[stream]))}
		for i, n := range m.items[stream] {
			key := m.world.item(stream, a.First+int64(i))
			if _, taken := m.current(key); taken {
				return nil, false
			}
			m.staged[key] = n
		}
		m.staged[a.Head] = a.Last
		appended = append(appended, a)
	}
	return appended, true
}

func (f *fixture) runStreamProgram(t *rapid.T, w *streamWorld, steps []streamStep, fail bool) {
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
	m := &streamSession{world: w, staged: map[storage.Key]int64{}, seen: map[storage.Key]bool{}, readOnly: map[storage.Key]bool{}}
	for i, s := range steps {
		if want := m.predict(s); seen[i] != want {
			t.Fatalf("step %d, %+v: saw %q instead of %q, after\n%s", i, s, seen[i], want, strings.Join(seen[:i], "\n"))
		}
	}
	appended, fits := m.extend()
	switch {
	case fail:
		if err != errStop {
			t.Fatalf("the transaction ended with %v\n%+v", err, steps)
		}
		return
	case !fits:
		var conflict *storage.ConflictError
		if !errors.As(err, &conflict) || conflict.Reason != storage.ReasonExists {
			t.Fatalf("an append over what is there ended with %v\n%+v", err, steps)
		}
		return
	case err != nil || !slices.Equal(commit.Appended, appended):
		t.Fatalf("the commit reports %+v instead of %+v, and %v\n%+v", commit.Appended, appended, err, steps)
	}
	for key, n := range m.staged {
		if n >= 0 {
			w.content[key] = n
		} else {
			delete(w.content, key)
		}
	}
	f.checkVersions(t, commit)
}

// checkVersions requires that the versions that a commit reports are true.
func (f *fixture) checkVersions(t *rapid.T, commit storage.Commit) {
	for key, version := range commit.Versions {
		_, err := f.try(func(c *call) {
			rec, _ := c.get(key)
			c.want(rec.Version == version, "the commit reports another version of %s than %s has", key, rec.Document)
		})
		if err != nil {
			t.Fatalf("%v", err)
		}
	}
}

// compareStreams reads everything back.
func (f *fixture) compareStreams(t *rapid.T, w *streamWorld) {
	_, err := f.try(func(c *call) {
		for stream := range streamNames {
			keys := []storage.Key{w.head(stream)}
			for position := int64(1); position <= lastOfProgram; position++ {
				keys = append(keys, w.item(stream, position))
			}
			found := c.getMany(keys...)
			for _, key := range keys {
				rec, there := found[key]
				n, present := w.content[key]
				c.want(there == present && (!there || show(rec) == fmt.Sprint(n)), "%s holds %s instead of %d (%t)", key, rec.Document, n, present)
			}
			m := &streamSession{world: w}
			page := w.perform(c, streamStep{do: "page", stream: stream})
			want := m.predict(streamStep{do: "page", stream: stream})
			c.want(page == want, "the index holds %q instead of %q", page, want)
		}
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
}
