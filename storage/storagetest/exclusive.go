package storagetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

var exclusiveQueries = topic{"ExclusiveQueries", []test{
	{name: "TwoNeverGetTheSame", run: twoNeverGetTheSame, twoOpen: true},
	{name: "BusyRecordsAreLeftOut", run: busyRecordsAreLeftOut, twoOpen: true},
	{name: "PointWritersAreLeftOut", run: pointWritersAreLeftOut, twoOpen: true},
	{name: "ExactlyThePageIsLocked", run: exactlyThePageIsLocked, twoOpen: true},
	{name: "PointWritersWait", run: pointWritersWait, twoOpen: true},
	{name: "LocksEndWithTheTransaction", run: locksEndWithTheTransaction},
	{name: "RecordsAreCarried", run: recordsAreCarried},
	{name: "StagedWritesWin", run: stagedWritesWin},
	{name: "TwoVersionsMakeItStale", run: twoVersionsMakeItStale},
	{name: "TheTimeIsNow", run: theTimeOfAnExclusivePageIsNow},
	{name: "TheTimeOfALaterPageIsNow", run: theTimeOfALaterPageIsNow, twoOpen: true},
	{name: "AReadBeforeThePageIsChecked", run: aReadBeforeThePageIsChecked},
	{name: "AWriteBeforeThePageIsChecked", run: aWriteBeforeThePageIsChecked},
	{name: "AReadAfterThePageIsChecked", run: aReadAfterThePageIsChecked, twoOpen: true},
	{name: "AReplayLetsGoOfThePage", run: aReplayLetsGoOfThePage, twoOpen: true},
	{name: "AgainInOneTransaction", run: exclusiveAgainInOneTransaction},
}}

// queue fills an index with numbered records: 0, 1, 2, …
func (f *fixture) queue(n int) storage.Query {
	f.Helper()
	var records []storage.Record
	for i := range n {
		id := fmt.Sprint(i)
		records = append(records, indexed(id, i, entry(storage.RunsByDue, encode(id))))
	}
	f.putAll(records)
	return storage.Query{Index: storage.RunsByDue, Partition: partitionOf(), Lock: storage.Exclusive}
}

// claim reads exclusive pages until it has n records or the index ends.
func (c *call) claim(q storage.Query, n int) []storage.Record {
	var all []storage.Record
	for len(all) < n {
		q.Limit = n - len(all)
		page := c.query(q)
		all = append(all, page.Records...)
		if page.Resume.IsZero() {
			break
		}
		q.Resume = page.Resume
	}
	return all
}

func twoNeverGetTheSame(f *fixture) {
	q := f.queue(6)
	m := newMeeting(2)
	var got [2][]string
	take := func(i int) func(c *call) {
		return func(c *call) {
			got[i] = ids(c.claim(q, 3))
			if c.attempt == 1 {
				m.wait(c)
			}
		}
	}
	first, second := f.start(take(0)), f.start(take(1))
	first.commits()
	second.commits()
	all := slices.Concat(got[0], got[1])
	slices.Sort(all)
	assert.Equal(f, []string{"0", "1", "2", "3", "4", "5"}, all, "%v and %v", got[0], got[1])
}

func busyRecordsAreLeftOut(f *fixture) {
	q := f.queue(5)
	for _, end := range []error{nil, errors.New("no")} {
		_, err := f.try(func(c *call) {
			c.want(slices.Equal(ids(c.claim(q, 2)), []string{"0", "1"}), "the first claim")
			f.aside(func(c *call) {
				c.want(slices.Equal(ids(c.claim(q, 2)), []string{"2", "3"}), "the second claim")
			})
			f.aside(func(c *call) {
				c.want(slices.Equal(ids(c.claim(q, 10)), []string{"2", "3", "4"}), "whatever is left")
			})
			back := q
			back.Direction = storage.Descending
			f.aside(func(c *call) {
				c.want(slices.Equal(ids(c.claim(back, 10)), []string{"4", "3", "2"}), "whatever is left, descending")
			})
			// Who only looks is not kept out.
			look := q
			look.Lock = storage.Candidates
			f.aside(func(c *call) { c.want(len(c.query(look).Records) == 5, "a candidate query skipped busy records") })
			f.aside(func(c *call) { c.want(c.number(keyOf(storage.Runs, "0")) == 0, "a point read") })
			c.must(end)
		})
		require.True(f, err == end, "got %v", err)
		f.transact(func(c *call) {
			c.want(len(c.claim(q, 10)) == 5, "the records are still locked")
		})
	}
}

// pointWritersAreLeftOut: who sealed a record by reading it holds it as well.
func pointWritersAreLeftOut(f *fixture) {
	q := f.queue(3)
	f.transact(func(c *call) {
		c.add(keyOf(storage.Runs, "1"), 0)
		c.get(keyOf(storage.Runs, "2"), storage.ReadOnly)
		c.now()
		f.aside(func(c *call) {
			c.want(slices.Equal(ids(c.claim(q, 10)), []string{"0"}), "records that somebody sealed were claimed")
		})
	})
}

// exactlyThePageIsLocked: there is no look-ahead row.
func exactlyThePageIsLocked(f *fixture) {
	q := f.queue(3)
	q.Limit = 1
	f.transact(func(c *call) {
		c.want(slices.Equal(ids(c.query(q).Records), []string{"0"}), "the page")
		for _, id := range []string{"1", "2"} {
			commit, err := f.start(func(c *call) { c.add(keyOf(storage.Runs, id), 10) }).wait()
			c.must(err)
			c.want(commit.Attempts == 1, "record %s was locked although it is not in the page", id)
		}
	})
	f.holds(keyOf(storage.Runs, "1"), `{"n":11}`)
}

// pointWritersWait: a writer that meets a claimed record commits after the claim.
func pointWritersWait(f *fixture) {
	q := f.queue(1)
	key := keyOf(storage.Runs, "0")
	claimed, read := make(signal), make(signal)
	writer := f.start(func(c *call) {
		if c.attempt == 1 {
			claimed.wait(c)
		}
		n := c.number(key)
		if c.attempt == 1 {
			close(read)
		}
		c.replace(number(key, n+1))
	})
	f.transact(func(c *call) {
		rec := c.claim(q, 1)[0]
		if c.attempt == 1 {
			close(claimed)
			read.wait(c)
		}
		c.replace(number(rec.Key, numberIn(rec)+10))
	})
	writer.commits()
	f.holds(key, `{"n":11}`)
}

func locksEndWithTheTransaction(f *fixture) {
	q := f.queue(3)
	for _, end := range []error{nil, errors.New("no")} {
		_, err := f.try(func(c *call) {
			c.want(len(c.claim(q, 3)) == 3, "the claim")
			c.must(end)
		})
		require.True(f, err == end)
		commit := f.transact(func(c *call) {
			for _, rec := range c.claim(q, 3) {
				c.replace(indexed(ids([]storage.Record{rec})[0], numberIn(rec), entry(storage.RunsByDue, encode("again"))))
			}
		})
		assert.Len(f, commit.Versions, 3)
		assert.Equal(f, 1, commit.Attempts)
	}
}

func recordsAreCarried(f *fixture) {
	q := f.queue(4)
	commit := f.transact(func(c *call) {
		page := c.claim(q, 4)
		c.want(len(page) == 4, "%d records", len(page))
		rec, found := c.get(page[0].Key)
		c.want(found && rec.Version == page[0].Version && string(rec.Document) == string(page[0].Document), "Get returned %v", rec)
		c.want(len(c.getMany(page[0].Key, page[1].Key)) == 2, "GetMany")
		c.now()
		c.want(c.number(page[3].Key) == 3, "a carried record cannot be read after Now")
		c.replace(number(page[1].Key, 100))
		c.delete(page[2].Key)
		err := c.tx.Create(c, number(page[3].Key, 1))
		c.want(isExists(err), "Create over a carried record: %v", err)
	})
	assert.Equal(f, 1, commit.Attempts)
	f.holds(keyOf(storage.Runs, "1"), `{"n":100}`)
	f.absent(keyOf(storage.Runs, "2"))
	f.holds(keyOf(storage.Runs, "3"), `{"n":3}`)
}

func stagedWritesWin(f *fixture) {
	q := f.queue(2)
	key, gone := keyOf(storage.Runs, "0"), keyOf(storage.Runs, "1")
	commit := f.transact(func(c *call) {
		c.add(key, 10)
		c.remove(gone)
		page := c.claim(q, 2)
		c.want(len(page) == 2 && numberIn(page[0]) == 0, "staged writes are seen by a query: %v", page)
		c.want(c.number(key) == 10, "a carried record replaced a staged one")
		_, found := c.get(gone)
		c.want(!found, "a carried record undid a staged Delete")
	})
	assert.Equal(f, 1, commit.Attempts)
	f.holds(key, `{"n":10}`)
	f.absent(gone)
}

func twoVersionsMakeItStale(f *fixture) {
	q := f.queue(1)
	key := keyOf(storage.Runs, "0")
	old := *f.read(key)
	put := func(id string) func(c *call) {
		return func(c *call) { c.put(indexed(id, 1, entry(storage.RunsByDue, encode(id)))) }
	}
	for name, c := range map[string]struct{ see, change func(c *call) }{
		"read":           {func(c *call) { c.get(key) }, put("0")},
		"read only":      {func(c *call) { c.get(key, storage.ReadOnly) }, put("0")},
		"assumed":        {func(c *call) { c.assume(old) }, put("0")},
		"read absent":    {func(c *call) { c.get(keyOf(storage.Runs, "1")) }, put("1")},
		"assumed absent": {func(c *call) { c.assumeAbsent(keyOf(storage.Runs, "2")) }, put("2")},
	} {
		commit, err := f.try(func(call *call) {
			c.see(call)
			if call.attempt == 1 {
				f.aside(c.change)
			}
			_, err := call.tx.Query(call, q)
			call.want((err == nil) == (call.attempt > 1), "%s: the query returned %v", name, err)
		})
		require.NoError(f, err, name)
		assert.Equal(f, 2, commit.Attempts, name)
	}
}

// theTimeOfAnExclusivePageIsNow: a claim needs no round trip to know the time.
func theTimeOfAnExclusivePageIsNow(f *fixture) {
	q := f.queue(2)
	for name, q := range map[string]storage.Query{"full": q, "empty": {Index: storage.RunsByRetention, Partition: partitionOf(), Lock: storage.Exclusive}} {
		commit := f.transact(func(c *call) {
			page := c.query(q)
			for _, rec := range page.Records {
				c.number(rec.Key)
			}
			c.want(c.now().Equal(page.Time), "%s: Now differs from the page's time", name)
			c.want(c.now().Equal(page.Time), "%s: the second Now differs", name)
			_, _, err := c.tx.Get(c, slot("x"))
			c.want(errors.Is(err, storage.ErrSealed), "%s: the read set is not sealed: %v", name, err)
			c.create(number(slot("w "+name), 1))
		})
		assert.Equal(f, 1, commit.Attempts)
	}
}

// theTimeOfALaterPageIsNow: what a second page holds may have been committed after the
// first one, so the time of the first would be too early.
func theTimeOfALaterPageIsNow(f *fixture) {
	q := f.queue(2)
	first, second := q, q
	first.Limit, second.From = 1, storage.At(encode("1"))
	commit := f.transact(func(c *call) {
		c.query(first)
		changed := f.transact(func(c *call) { c.put(indexed("1", 1, entry(storage.RunsByDue, encode("1")))) })
		page := c.query(second)
		c.want(len(page.Records) == 1, "the second page holds %d records", len(page.Records))
		now := c.now()
		c.want(!now.Before(changed.Time), "Now is %s, and what is held was written at %s", now, changed.Time)
		c.want(now.Equal(page.Time), "Now is %s, and the time of the last page is %s", now, page.Time)
	})
	assert.Equal(f, 1, commit.Attempts)
}

// aReadBeforeThePageIsChecked: the time of a page that did not come first is not now.
func aReadBeforeThePageIsChecked(f *fixture) {
	q := f.queue(2)
	commit := f.transact(func(c *call) {
		c.get(slot("y"))
		if c.attempt == 1 {
			f.aside(func(c *call) { c.create(number(slot("y"), 1)) })
		}
		c.query(q)
		_, err := c.tx.Now(c)
		c.want((err == nil) == (c.attempt > 1), "Now did not check what was read before the page: %v", err)
	})
	assert.Equal(f, 2, commit.Attempts)
}

// aWriteBeforeThePageIsChecked: neither is the time of a page that comes after a blind
// write, since what was staged has yet to be locked and checked.
func aWriteBeforeThePageIsChecked(f *fixture) {
	q := f.queue(2)
	f.put(number(slot("y"), 1))
	_, err := f.try(func(c *call) {
		c.create(number(slot("y"), 2))
		c.query(q)
		c.now()
		c.stop(errors.New("Now let a blind Create of a present record pass"))
	})
	assert.ErrorIs(f, err, storage.ErrRecordExists)
}

// aReadAfterThePageIsChecked: after another read the page's time is too early to be
// now, since that read has yet to be locked.
func aReadAfterThePageIsChecked(f *fixture) {
	q := f.queue(2)
	commit := f.transact(func(c *call) {
		page := c.query(q)
		c.get(slot("y"))
		if c.attempt == 1 {
			f.aside(func(c *call) { c.create(number(slot("y"), 1)) })
		}
		_, err := c.tx.Now(c)
		c.want((err == nil) == (c.attempt > 1), "Now did not check what was read after the page: %v", err)
		c.want(len(page.Records) == 2, "the page")
	})
	assert.Equal(f, 2, commit.Attempts)
}

// aReplayLetsGoOfThePage: what an attempt knew only through an exclusive query is other
// workers' business before the next one begins; what it read by key is not.
func aReplayLetsGoOfThePage(f *fixture) {
	q := f.queue(2)
	f.put(number(slot("x"), 1))
	commit := f.transact(func(c *call) {
		n := c.number(slot("x"))
		switch c.attempt {
		case 1:
			f.aside(func(c *call) { c.add(slot("x"), 1) })
			for _, rec := range c.claim(q, 2) {
				c.number(rec.Key)
			}
		case 2:
			f.aside(func(c *call) { c.want(len(c.claim(q, 2)) == 2, "a replay holds what the attempt before claimed") })
		}
		c.replace(number(slot("x"), n+10))
	})
	assert.Equal(f, 2, commit.Attempts)
	f.holds(slot("x"), `{"n":12}`)
}

func exclusiveAgainInOneTransaction(f *fixture) {
	q := f.queue(3)
	commit := f.transact(func(c *call) {
		first := ids(c.claim(q, 2))
		again := ids(c.claim(q, 3))
		c.want(slices.Equal(first, []string{"0", "1"}) && slices.Equal(again, []string{"0", "1", "2"}), "%v, then %v", first, again)
	})
	assert.Equal(f, 1, commit.Attempts)
}
