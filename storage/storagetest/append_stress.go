package storagetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

var appendConcurrency = topic{"AppendConcurrency", []test{
	{name: "SixteenAppendersAndAFollower", run: sixteenAppendersAndAFollower},
	{name: "WritersOfAllKinds", run: writersOfAllKinds},
	{name: "HeadAndItemsAgree", run: headAndItemsAgree},
	{name: "TheEndIsDelivered", run: theEndIsDelivered},
}}

// ledger is what appenders were told.
type ledger struct {
	mu    sync.Mutex
	items map[string]map[int64]string
}

func newLedger() *ledger { return &ledger{items: map[string]map[int64]string{}} }

// note remembers the items that a commit says it appended to a stream.
func (l *ledger) note(stream string, a storage.Appended, items []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.Head != headOf(stream) || a.Last-a.First+1 != int64(len(items)) {
		return fmt.Errorf("%d items of %q went to %+v", len(items), stream, a)
	}
	if l.items[stream] == nil {
		l.items[stream] = map[int64]string{}
	}
	for i, item := range items {
		position := a.First + int64(i)
		if other, twice := l.items[stream][position]; twice {
			return fmt.Errorf("position %d of %q was given to %s and to %s", position, stream, other, item)
		}
		l.items[stream][position] = item
	}
	return nil
}

// compare requires that a stream holds what its appenders were told, and nothing else.
func (l *ledger) compare(f *fixture, stream string) {
	f.Helper()
	items := f.stream(stream)
	require.Len(f, items, len(l.items[stream]))
	for _, item := range items {
		sameJSON(f, l.items[stream][item.Position], item.Data)
	}
}

// follow reads a stream behind what it has seen, again and again, until it has begun to
// read after done. Every page must go on without a gap. The result is how much it saw.
func (f *fixture) follow(stream string, done <-chan struct{}) (seen int64, err error) {
	last := codec.Observation{}
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		for more := true; more; {
			var records []storage.Record
			_, err := f.try(func(c *call) {
				page := c.query(behind(stream, seen))
				records, more = page.Records, !page.Resume.IsZero()
			})
			if err != nil {
				return seen, err
			}
			items, err := decodeItems(stream, seen+1, records)
			if err != nil {
				return seen, err
			}
			if len(items) > 0 {
				if items[0].At.Before(last.At) {
					return seen, fmt.Errorf("the time of %q falls from %s to %s", stream, last.At, items[0].At)
				}
				seen, last = seen+int64(len(items)), items[len(items)-1]
			}
		}
	}
	return seen, nil
}

func sixteenAppendersAndAFollower(f *fixture) {
	const appenders = 16
	rounds := f.rounds(12)
	l := newLedger()
	var left atomic.Int32
	left.Store(appenders)
	done := make(chan struct{})
	seen := int64(0)
	f.together(appenders+1, func(worker int) (err error) {
		if worker == appenders {
			seen, err = f.follow("s", done)
			return err
		}
		defer func() {
			if left.Add(-1) == 0 {
				close(done)
			}
		}()
		for round := range rounds {
			var items []string
			for i := range 1 + (worker+round)%3 {
				items = append(items, fmt.Sprintf(`"%d/%d/%d"`, worker, round, i))
			}
			commit, err := f.insist(func(c *call) { c.append("s", items...) })
			if err != nil {
				return err
			}
			if err := l.note("s", commit.Appended[0], items); err != nil {
				return err
			}
		}
		return nil
	})
	l.compare(f, "s")
	require.Len(f, l.items["s"], int(seen), "the follower missed some")
	// Each appender's items are in the order in which it appended them.
	next := map[int]int{}
	for _, item := range f.stream("s") {
		var worker, round, i int
		_, err := fmt.Sscanf(string(item.Data), `"%d/%d/%d"`, &worker, &round, &i)
		require.NoError(f, err)
		require.GreaterOrEqual(f, round*10+i, next[worker], "%s is out of order", item.Data)
		next[worker] = round*10 + i + 1
	}
}

// writersOfAllKinds: some append to several streams, some read heads, some seal them,
// some collide elsewhere and some fail. What was reported is there and nothing else.
func writersOfAllKinds(f *fixture) {
	rounds := f.rounds(12)
	streams := []string{"a", "b", "c"}
	f.put(number(slot("counter"), 0))
	l := newLedger()
	var left atomic.Int32
	left.Store(workers)
	var counted atomic.Int64
	done := make(chan struct{})
	seen := make([]int64, len(streams))
	f.together(workers+len(streams), func(worker int) (err error) {
		if i := worker - workers; i >= 0 {
			seen[i], err = f.follow(streams[i], done)
			return err
		}
		defer func() {
			if left.Add(-1) == 0 {
				close(done)
			}
		}()
		random := rand.New(rand.NewPCG(5, uint64(worker)))
		for round := range rounds {
			w := drawWriter(random, streams, fmt.Sprintf("%d/%d", worker, round))
			commit, err := f.insist(w.write)
			switch {
			case w.fail && err == errStop:
				continue
			case err != nil:
				return err
			case w.count:
				counted.Add(1)
			}
			if len(commit.Appended) != len(w.items) {
				return fmt.Errorf("a commit reports %+v", commit.Appended)
			}
			for i, a := range commit.Appended {
				if err := l.note(w.streams[i], a, w.items[i]); err != nil {
					return err
				}
			}
		}
		return nil
	})
	for i, stream := range streams {
		l.compare(f, stream)
		require.Len(f, l.items[stream], int(seen[i]), "the follower of %q missed some", stream)
	}
	f.holds(slot("counter"), fmt.Sprintf(`{"n":%d}`, counted.Load()))
}

// writer is one transaction of such a test.
type writer struct {
	streams     []string
	items       [][]string
	read, seal  bool // the heads
	count, fail bool
}

func drawWriter(random *rand.Rand, streams []string, name string) writer {
	w := writer{
		read: random.IntN(4) == 0, seal: random.IntN(4) == 0, count: random.IntN(4) == 0, fail: random.IntN(6) == 0,
	}
	for _, i := range random.Perm(len(streams))[:1+random.IntN(len(streams))] {
		var items []string
		for j := range 1 + random.IntN(3) {
			items = append(items, fmt.Sprintf(`"%s/%d"`, name, j))
		}
		w.streams, w.items = append(w.streams, streams[i]), append(w.items, items)
	}
	return w
}

func (w writer) write(c *call) {
	if w.read {
		for _, stream := range w.streams {
			c.get(headOf(stream))
		}
	}
	if w.count {
		c.add(slot("counter"), 1)
	}
	if w.seal {
		c.now()
	}
	for i, stream := range w.streams {
		c.append(stream, w.items[i]...)
	}
	if w.fail {
		c.stop(errStop)
	}
}

// headAndItemsAgree: read in one call, they are of one moment; and so they are when the
// head is sealed before the page is read.
func headAndItemsAgree(f *fixture) {
	appends := f.rounds(40)
	wanted := []storage.Key{headOf("s")}
	for position := range int64(2*appends + 1) {
		wanted = append(wanted, itemOf("s", position+1))
	}
	done := make(chan struct{})
	f.together(2, func(worker int) error {
		if worker == 0 {
			defer close(done)
			for i := range appends {
				if _, err := f.insist(func(c *call) { c.append("s", fmt.Sprint(i), `"second"`) }); err != nil {
					return err
				}
			}
			return nil
		}
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			_, err := f.try(func(c *call) {
				found := c.getMany(wanted...)
				last := lastIn(found[headOf("s")])
				for position := int64(1); position <= int64(2*appends+1); position++ {
					_, there := found[itemOf("s", position)]
					c.want(there == (position <= last), "the head is at %d, and that item %d is there is %t", last, position, there)
				}
			})
			if err != nil {
				return err
			}
			_, err = f.insist(func(c *call) {
				rec, _ := c.get(headOf("s"))
				c.now()
				items := c.query(streamQuery("s")).Records
				c.want(int64(len(items)) == lastIn(rec), "the sealed head is at %d, and the page has %d items", lastIn(rec), len(items))
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	require.Len(f, f.stream("s"), 2*appends)
}

// lastIn is the position of a head that may be absent.
func lastIn(rec storage.Record) int64 {
	if rec.Version.IsZero() {
		return 0
	}
	return positionIn(rec)
}

// theEndIsDelivered: runs end while others watch them. Who finds a run ended finds the
// last item of its stream in the next page, and who finds the last item finds the run ended.
func theEndIsDelivered(f *fixture) {
	runs := f.rounds(12)
	id := func(i int) string { return fmt.Sprint("run", i) }
	for i := range runs {
		f.put(f.runRecord(sampleRun(id(i), run.StatusRunning)))
	}
	done := make(chan struct{})
	f.together(3, func(worker int) error {
		if worker == 0 {
			defer close(done)
		}
		for i := range runs {
			if worker > 0 {
				if err := f.watch(id(i), done); err != nil {
					return err
				}
				continue
			}
			for range 3 {
				if _, err := f.insist(func(c *call) { c.append(id(i), `"more"`) }); err != nil {
					return err
				}
			}
			ended := f.runRecord(sampleRun(id(i), run.StatusSucceeded))
			if _, err := f.insist(func(c *call) { c.append(id(i), `"end"`); c.put(ended) }); err != nil {
				return err
			}
		}
		return nil
	})
	for i := range runs {
		f.streamHolds(id(i), `"more"`, `"more"`, `"more"`, `"end"`)
	}
}

// watch looks at a run and its stream by turns until the run has ended, which it must
// have when done is closed.
func (f *fixture) watch(id string, done <-chan struct{}) error {
	ended := func() (bool, error) {
		r, found, err := f.store.GetRun(f.ctx, env, id)
		if err == nil && !found {
			err = fmt.Errorf("run %q is gone", id)
		}
		return r.Status.Terminal(), err
	}
	for {
		over := false
		select {
		case <-done:
			over = true
		default:
		}
		before, err := ended()
		switch {
		case err != nil:
			return err
		case over && !before:
			return fmt.Errorf("run %q has not ended", id)
		}
		last := ""
		if _, err := f.try(func(c *call) {
			items, err := decodeItems(id, 1, c.query(streamQuery(id)).Records)
			c.must(err)
			if last = ""; len(items) > 0 {
				last = string(items[len(items)-1].Data)
			}
		}); err != nil {
			return err
		}
		after, err := ended()
		switch {
		case err != nil:
			return err
		case before && last != `"end"`:
			return fmt.Errorf("run %q has ended, and the last item of its stream is %s", id, last)
		case last == `"end"` && !after:
			return fmt.Errorf("the stream of run %q has ended, the run has not", id)
		case before:
			return nil
		}
	}
}
