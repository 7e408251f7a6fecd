package storagetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

var ordered = topic{"Append", []test{
	{name: "PositionsBeginAtOneAndHaveNoGap", run: positionsBeginAtOneAndHaveNoGap},
	{name: "SeveralStreamsInOneTransaction", run: severalStreamsInOneTransaction},
	{name: "SeveralCallsCombine", run: severalCallsCombine},
	{name: "StreamsAreApart", run: streamsAreApart},
	{name: "NothingCommittedLeavesNoGap", run: nothingCommittedLeavesNoGap},
	{name: "TogetherWithWrites", run: appendTogetherWithWrites},
	{name: "TheLastItemComesWithTheEnd", run: theLastItemComesWithTheEnd},
	{name: "AloneItIsAWrite", run: appendAloneIsAWrite},
	{name: "NoItemsDoNothing", run: noItemsDoNothing},
	{name: "IsNotSeenBeforeTheCommit", run: itemsAreNotSeenBeforeTheCommit},
	{name: "AfterNow", run: appendAfterNow},
	{name: "TimesDoNotFall", run: timesOfItemsDoNotFall},
	{name: "ItemsHaveTheTimeOfTheirCommit", run: itemsHaveTheTimeOfTheirCommit, lacks: lacksClock},
	{name: "AReplayAppendsOnce", run: aReplayAppendsOnce},
}}

func positionsBeginAtOneAndHaveNoGap(f *fixture) {
	var want []string
	last := int64(0)
	for i, n := range []int{1, 2, 1, 7, 30, 1} {
		var items []string
		for j := range n {
			items = append(items, fmt.Sprintf(`"%d/%d"`, i, j))
		}
		commit := f.transact(func(c *call) { c.append("s", items...) })
		assert.Equal(f, 1, commit.Attempts)
		require.Equal(f, []storage.Appended{{Head: headOf("s"), First: last + 1, Last: last + int64(n)}}, commit.Appended)
		last += int64(n)
		want = append(want, items...)
		f.streamHolds("s", want...)
	}
}

func severalStreamsInOneTransaction(f *fixture) {
	f.transact(func(c *call) { c.append("m", `"m1"`, `"m2"`) })
	// The order is that of the calls, neither that of names nor that of locks.
	streams := []string{"q", "m", "z", "a", "p", "b"}
	commit := f.transact(func(c *call) {
		for _, stream := range streams {
			c.append(stream, fmt.Sprintf("%q", stream))
		}
	})
	var want []storage.Appended
	for _, stream := range streams {
		at := int64(1)
		if stream == "m" {
			at = 3
		}
		want = append(want, storage.Appended{Head: headOf(stream), First: at, Last: at})
	}
	assert.Equal(f, want, commit.Appended)
	assert.Equal(f, 1, commit.Attempts)
	f.streamHolds("m", `"m1"`, `"m2"`, `"m"`)
	f.streamHolds("z", `"z"`)
}

func severalCallsCombine(f *fixture) {
	commit := f.transact(func(c *call) {
		items := rawItems([]string{`1`, `2`})
		c.must(c.tx.Append(c, headOf("a"), items...))
		// The array is the caller's to use again.
		items[0], items[1] = []byte(`3`), []byte(`4`)
		c.append("b", `"b1"`)
		c.must(c.tx.Append(c, headOf("a"), items...))
		items[0] = []byte(`"not this"`)
		c.append("a", `5`)
		c.append("b", `"b2"`)
	})
	assert.Equal(f, []storage.Appended{{Head: headOf("a"), First: 1, Last: 5}, {Head: headOf("b"), First: 1, Last: 2}}, commit.Appended)
	f.streamHolds("a", `1`, `2`, `3`, `4`, `5`)
	f.streamHolds("b", `"b1"`, `"b2"`)
}

// streamsAreApart uses names that a careless encoding, or a prefix, would take for one.
func streamsAreApart(f *fixture) {
	names := []string{"s", "s!", "ss", "s\x7f", "S", "s#", "s:1", "s 1", "s1", "1", "ä", "$1", "'; --", `a"b`, `%_\`, "😀", "\t"}
	f.transact(func(c *call) {
		for i, name := range names {
			c.append(name, fmt.Sprint(i), `"of each"`)
		}
	})
	for i, name := range names {
		f.streamHolds(name, fmt.Sprint(i), `"of each"`)
	}
	other := headIn("env2", "s")
	commit := f.transact(func(c *call) { c.must(c.tx.Append(c, other, rawItems([]string{`"elsewhere"`})...)) })
	assert.Equal(f, []storage.Appended{{Head: other, First: 1, Last: 1}}, commit.Appended)
	f.streamHolds("s", `0`, `"of each"`)
}

// nothingCommittedLeavesNoGap: whatever ends a transaction, its positions are given
// to the next.
func nothingCommittedLeavesNoGap(f *fixture) {
	f.put(number(slot("x"), 1))
	f.put(number(slot("taken"), 1))
	f.transact(func(c *call) { c.append("s", `"first"`) })
	mine := errors.New("no")
	for name, fail := range map[string]func(c *call, cancel func()){
		"an error":           func(c *call, _ func()) { c.append("s", `"lost"`); c.stop(mine) },
		"an error after Now": func(c *call, _ func()) { c.append("s", `"lost"`); c.get(slot("y")); c.now(); c.stop(mine) },
		"a refused write":    func(c *call, _ func()) { c.append("s", `"lost"`); c.number(slot("x")); c.create(number(slot("x"), 2)) },
		"a blind Create":     func(c *call, _ func()) { c.append("s", `"lost"`); c.create(number(slot("taken"), 2)) },
		"a cancelled context": func(c *call, cancel func()) {
			c.append("s", `"lost"`)
			c.add(slot("x"), 100)
			cancel()
		},
	} {
		ctx, cancel := context.WithCancel(f.ctx)
		commit, err := transact(ctx, f.store, label, func(c *call) { fail(c, cancel) })
		cancel()
		require.Error(f, err, name)
		assert.Empty(f, commit.Appended, name)
	}
	assert.PanicsWithValue(f, "oh no", func() {
		_, _ = f.try(func(c *call) { c.append("s", `"lost"`); panic("oh no") })
	})
	// An attempt that was stale, in a transaction that commits.
	commit := f.transact(func(c *call) {
		c.add(slot("x"), 1)
		c.append("s", fmt.Sprintf(`"attempt %d"`, c.attempt))
		if c.attempt == 1 {
			f.aside(func(c *call) { c.add(slot("x"), 1) })
		}
	})
	assert.Equal(f, 2, commit.Attempts)
	assert.Equal(f, []storage.Appended{{Head: headOf("s"), First: 2, Last: 2}}, commit.Appended)
	f.streamHolds("s", `"first"`, `"attempt 2"`)
}

func appendTogetherWithWrites(f *fixture) {
	created, replaced, deleted := slot("created"), slot("replaced"), slot("deleted")
	f.put(number(replaced, 1))
	f.put(number(deleted, 1))
	body := func(end error) func(c *call) {
		return func(c *call) {
			c.append("s", `1`)
			c.create(number(created, 1))
			c.add(replaced, 1)
			c.append("t", `2`)
			c.remove(deleted)
			c.append("s", `3`)
			c.wake("topic")
			c.must(end)
		}
	}
	_, err := f.try(body(errStop))
	require.True(f, err == errStop)
	f.absent(created)
	f.holds(replaced, `{"n":1}`)
	f.holds(deleted, `{"n":1}`)
	f.streamHolds("s")
	f.streamHolds("t")

	e := f.listen()
	commit := f.transact(body(nil))
	assert.Equal(f, 1, commit.Attempts)
	assert.Equal(f, []storage.Appended{{Head: headOf("s"), First: 1, Last: 2}, {Head: headOf("t"), First: 1, Last: 1}}, commit.Appended)
	f.versionsAreTrue(commit, created, replaced)
	f.holds(created, `{"n":1}`)
	f.holds(replaced, `{"n":2}`)
	f.absent(deleted)
	f.streamHolds("s", `1`, `3`)
	f.streamHolds("t", `2`)
	require.NoError(f, e.wait(f.ctx, "topic"))
}

// versionsAreTrue requires that a commit reports the versions of what was written,
// and that whatever else it reports is true.
func (f *fixture) versionsAreTrue(commit storage.Commit, written ...storage.Key) {
	f.Helper()
	for _, key := range written {
		assert.Contains(f, commit.Versions, key)
	}
	for key, version := range commit.Versions {
		rec := f.read(key)
		require.NotNil(f, rec, "the commit has a version of %s, which is absent", key)
		assert.Equal(f, rec.Version, version, "the commit has another version of %s", key)
	}
}

// theLastItemComesWithTheEnd: whoever sees that a run has ended finds the last item
// of its stream, and the other way round.
func theLastItemComesWithTheEnd(f *fixture) {
	r := sampleRun("r", run.StatusRunning)
	f.put(f.runRecord(r))
	f.transact(func(c *call) { c.append("r", `"working"`) })
	see := func(want bool) {
		f.Helper()
		got, found := f.getRun("r")
		require.True(f, found)
		assert.Equal(f, want, got.Status.Terminal(), "the run")
		items := []string{`"working"`}
		if want {
			items = append(items, `"done"`)
		}
		f.streamHolds("r", items...)
	}
	for _, end := range []error{errStop, nil} {
		_, err := f.try(func(c *call) {
			ended := sampleRun("r", run.StatusSucceeded)
			ended.Sequence = 2
			c.put(f.runRecord(ended))
			e := run.Event{ID: numbered(2), Environment: env, RunID: "r", Sequence: 2, At: epoch, Data: run.Succeeded{Token: r.Lease.Token}}
			c.create(f.eventRecord(e))
			c.append("r", `"done"`)
			// Nothing of it can be seen before the commit.
			f.aside(func(c *call) {
				rec, _ := c.get(f.runRecord(r).Key)
				seen, _ := codec.DecodeRun(rec)
				c.want(seen.Status == run.StatusRunning, "a staged run is seen: %s", rec.Document)
				c.want(len(c.query(streamQuery("r")).Records) == 1, "a staged item is seen")
			})
			c.must(end)
		})
		require.True(f, err == end, "got %v", err)
		see(end == nil)
	}
}

func appendAloneIsAWrite(f *fixture) {
	commit := f.transact(func(c *call) { c.append("s", `1`) })
	assert.Equal(f, 1, commit.Attempts)
	assert.True(f, isClean(commit.Time), "the commit's time is %s", commit.Time)
	f.versionsAreTrue(commit)
	before := f.read(headOf("s")).Version
	again := f.transact(func(c *call) { c.append("s", `2`) })
	assert.False(f, again.Time.Before(commit.Time), "time ran backwards")
	assert.NotEqual(f, before, f.read(headOf("s")).Version, "the head was written and has no new version")
	assert.NotEqual(f, f.read(itemOf("s", 1)).Version, f.read(itemOf("s", 2)).Version, "two records have one version")
}

func noItemsDoNothing(f *fixture) {
	commit := f.transact(func(c *call) {
		c.append("s")
		c.must(c.tx.Append(c, headOf("t"), rawItems(nil)...))
	})
	assert.Empty(f, commit.Appended)
	assert.True(f, commit.Time.IsZero(), "nothing was written, yet the commit has the time %s", commit.Time)
	f.absent(headOf("s"))

	f.transact(func(c *call) { c.append("s", `1`) })
	version := f.read(headOf("s")).Version
	commit = f.transact(func(c *call) {
		c.append("s")
		c.append("t", `"t"`)
		c.append("s")
	})
	assert.Equal(f, []storage.Appended{{Head: headOf("t"), First: 1, Last: 1}}, commit.Appended)
	assert.Equal(f, version, f.read(headOf("s")).Version, "nothing was appended, yet the head was written")
}

// itemsAreNotSeenBeforeTheCommit, not even by the transaction itself.
func itemsAreNotSeenBeforeTheCommit(f *fixture) {
	f.transact(func(c *call) { c.append("s", `1`) })
	commit := f.transact(func(c *call) {
		c.append("s", `2`)
		rec, found := c.get(headOf("s"))
		c.want(found && positionIn(rec) == 1, "the head of before is not seen: %s", rec.Document)
		_, found = c.get(itemOf("s", 2))
		c.want(!found, "a staged item is read")
		c.want(len(c.query(streamQuery("s")).Records) == 1, "a staged item is found")
		c.want(len(c.peek(itemOf("s", 2))) == 0, "a staged item is peeked at")
	})
	assert.Equal(f, 1, commit.Attempts)
	f.streamHolds("s", `1`, `2`)
}

func appendAfterNow(f *fixture) {
	for _, read := range []bool{false, true} {
		stream := fmt.Sprint("s", read)
		commit := f.transact(func(c *call) {
			if read {
				c.get(headOf(stream))
			}
			now := c.now()
			c.append(stream, fmt.Sprintf("%q", now.Format(storage.TimeFormat)))
		})
		assert.Equal(f, 1, commit.Attempts)
		item := f.stream(stream)[0]
		sealed, err := time.Parse(`"`+storage.TimeFormat+`"`, string(item.Data))
		require.NoError(f, err)
		assert.False(f, item.At.Before(sealed), "the item is of %s, before the transaction's Now, %s", item.At, sealed)
	}
}

func timesOfItemsDoNotFall(f *fixture) {
	var times []time.Time
	for range 20 {
		commit := f.transact(func(c *call) { c.append("s", `1`, `2`); c.append("t", `1`) })
		assert.False(f, commit.Time.IsZero())
		items := f.stream("s") // which has checked all of them
		mine := items[len(items)-2:]
		assert.True(f, mine[0].At.Equal(mine[1].At), "two items of one commit have the times %s and %s", mine[0].At, mine[1].At)
		times = append(times, mine[0].At)
	}
	assert.True(f, slices.IsSortedFunc(times, time.Time.Compare))
}

// itemsHaveTheTimeOfTheirCommit: they lie between what was committed before and what
// is read from the clock afterwards.
func itemsHaveTheTimeOfTheirCommit(f *fixture) {
	before := f.transact(func(c *call) { c.create(number(slot("x"), 1)) }).Time
	f.transact(func(c *call) { c.append("s", `1`) })
	var after time.Time
	f.transact(func(c *call) { after = c.now() })
	at := f.stream("s")[0].At
	assert.False(f, at.Before(before), "%s is before %s", at, before)
	assert.False(f, at.After(after), "%s is after %s", at, after)
}

// aReplayAppendsOnce also shows that appending is no dependency: the items of
// others do not make an attempt stale.
func aReplayAppendsOnce(f *fixture) {
	f.put(number(slot("x"), 1))
	commit := f.transact(func(c *call) {
		c.append("s", `"before"`)
		n := c.number(slot("x"))
		if c.attempt == 1 {
			f.aside(func(c *call) { c.append("s", `"aside"`) })
			f.aside(func(c *call) { c.add(slot("x"), 1) })
		}
		c.append("s", fmt.Sprint(c.attempt))
		c.replace(number(slot("x"), n+10))
	})
	assert.Equal(f, 2, commit.Attempts)
	assert.Equal(f, []storage.Appended{{Head: headOf("s"), First: 2, Last: 3}}, commit.Appended)
	f.streamHolds("s", `"aside"`, `"before"`, `2`)
	f.holds(slot("x"), `{"n":12}`)

	commit = f.transact(func(c *call) {
		c.append("s", `"mine"`)
		f.aside(func(c *call) { c.append("s", `"theirs"`) })
	})
	assert.Equal(f, 1, commit.Attempts, "an append to the same stream made an append stale")
	f.streamHolds("s", `"aside"`, `"before"`, `2`, `"theirs"`, `"mine"`)
}
