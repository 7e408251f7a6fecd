package storagetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/keys"
)

var queries = topic{"Queries", []test{
	{name: "EveryIndexAnswers", run: everyIndexAnswers},
	{name: "OrderIsSortThenID", run: orderIsSortThenID},
	{name: "RangesAreHalfOpen", run: rangesAreHalfOpen},
	{name: "PagesOfEverySize", run: pagesOfEverySize},
	{name: "ResumeOutlivesItsRecord", run: resumeOutlivesItsRecord},
	{name: "PartitionsAreApart", run: partitionsAreApart},
	{name: "TheDefaultPage", run: theDefaultPage},
	{name: "ServerNow", run: serverNow},
	{name: "StagedWritesAreNotSeen", run: stagedWritesAreNotSeen},
	{name: "CandidatesAreNoDependencies", run: candidatesAreNoDependencies},
	{name: "WhatCommittedIsSeen", run: whatCommittedIsSeen, lacks: lacksIndexes},
	{name: "PagesHaveATime", run: pagesHaveATime, lacks: lacksClock},
}}

// indexed is a record with one entry.
func indexed(id string, n int, e storage.Entry) storage.Record {
	rec := number(storage.Key{Collection: e.Index.On(), Partition: encode(env), ID: encode(id)}, n)
	rec.Entries = []storage.Entry{e}
	return rec
}

// putAll creates records in one transaction.
func (f *fixture) putAll(records []storage.Record) {
	f.Helper()
	f.transact(func(c *call) {
		for _, rec := range records {
			c.create(rec)
		}
	})
}

// walk reads all pages of a query.
func (f *fixture) walk(q storage.Query) []storage.Record {
	f.Helper()
	var all []storage.Record
	for {
		var page storage.Page
		f.transact(func(c *call) { page = c.query(q) })
		all = append(all, page.Records...)
		if page.Resume.IsZero() {
			return all
		}
		require.LessOrEqual(f, len(all), 100_000, "the pages never end")
		q.Resume = page.Resume
	}
}

func ids(records []storage.Record) []string {
	out := make([]string, 0, len(records))
	for _, rec := range records {
		text, err := keys.DecodeString(rec.Key.ID)
		if err != nil {
			panic(err)
		}
		out = append(out, text)
	}
	return out
}

func everyIndexAnswers(f *fixture) {
	for _, ix := range storage.Indexes() {
		for i, id := range []string{"c", "a", "b"} {
			f.put(indexed(id+ix.String(), i, entry(ix, encode(id), "p")))
		}
		got := f.walk(storage.Query{Index: ix, Partition: partitionOf("p")})
		require.Equal(f, []string{"a" + ix.String(), "b" + ix.String(), "c" + ix.String()}, ids(got))
		for i, rec := range got {
			assert.Equal(f, *f.read(rec.Key), rec, "%s: a candidate is not what a read returns", ix)
			assert.Equal(f, []int{1, 2, 0}[i], numberIn(rec))
		}
	}
}

func orderIsSortThenID(f *fixture) {
	var sorts []string
	for _, s := range []string{"", "a", "a:b", "a:z", "a1:b", "a b", "ab", "A", "ä", "z", "~", "\x7f", "€", "😀", "a\n", `a"b`, "a!"} {
		sorts = append(sorts, encode(s), encode(s, "x"))
	}
	for _, n := range []int64{0, 1, -1, 9, 10, -10, 1 << 40, -1 << 40} {
		sorts = append(sorts, keys.EncodeInt(n))
	}
	for _, t := range []time.Time{time.Unix(0, 0), time.Unix(-1, 0), time.Unix(1<<33, 1000)} {
		sorts = append(sorts, encodeTime(t))
	}
	var records []storage.Record
	for i, sort := range sorts {
		for _, id := range []string{"z", "a", "m:", "m"} {
			records = append(records, indexed(fmt.Sprint(id, i%3, "/", i), i, entry(storage.RunsByDue, sort)))
		}
	}
	f.putAll(records)

	want := slices.Clone(records)
	slices.SortFunc(want, func(a, b storage.Record) int {
		if d := strings.Compare(a.Entries[0].Sort, b.Entries[0].Sort); d != 0 {
			return d
		}
		return strings.Compare(a.Key.ID, b.Key.ID)
	})
	q := storage.Query{Index: storage.RunsByDue, Partition: partitionOf(), Limit: 500}
	assert.Equal(f, ids(want), ids(f.walk(q)))
	slices.Reverse(want)
	q.Direction = storage.Descending
	assert.Equal(f, ids(want), ids(f.walk(q)))
}

func rangesAreHalfOpen(f *fixture) {
	var records []storage.Record
	for i := range 10 {
		for _, twin := range []string{"x", "y"} {
			records = append(records, indexed(fmt.Sprint(i, twin), i, entry(storage.RunsByDue, keys.EncodeInt(int64(i)))))
		}
	}
	f.putAll(records)
	for from := -1; from <= 10; from++ {
		for until := -1; until <= 10; until++ {
			var want []string
			for i := range 10 {
				if i >= from && i < until {
					want = append(want, fmt.Sprint(i, "x"), fmt.Sprint(i, "y"))
				}
			}
			q := storage.Query{
				Index: storage.RunsByDue, Partition: partitionOf(),
				From: storage.At(keys.EncodeInt(int64(from))), Until: storage.At(keys.EncodeInt(int64(until))),
			}
			require.ElementsMatch(f, want, ids(f.walk(q)), "%d to %d", from, until)
			q.Direction = storage.Descending
			got := ids(f.walk(q))
			slices.Reverse(got)
			require.ElementsMatch(f, want, got, "%d to %d, descending", from, until)
			require.True(f, slices.IsSorted(got))
		}
	}
}

func pagesOfEverySize(f *fixture) {
	const n = 23
	var records []storage.Record
	var want []string
	for i := range n {
		// Groups of records with one sort value, wider than some pages.
		id := fmt.Sprintf("%02d", i)
		records = append(records, indexed(id, i, entry(storage.RunsByDue, keys.EncodeInt(int64(i/7)))))
		want = append(want, id)
	}
	f.putAll(records)
	for _, direction := range []storage.Direction{storage.Ascending, storage.Descending} {
		for limit := 1; limit <= n+1; limit += n / f.rounds(n) {
			for _, lock := range []storage.Lock{storage.Candidates, storage.Exclusive} {
				q := storage.Query{Index: storage.RunsByDue, Partition: partitionOf(), Limit: limit, Direction: direction, Lock: lock}
				require.Equal(f, want, ids(f.walk(q)), "limit %d, direction %d, lock %d", limit, direction, lock)

				q.From, q.Until = storage.At(keys.EncodeInt(1)), storage.At(keys.EncodeInt(3))
				got := ids(f.walk(q))
				require.Len(f, got, 14, "limit %d, direction %d: a bounded walk", limit, direction)
			}
		}
		slices.Reverse(want)
	}
}

func resumeOutlivesItsRecord(f *fixture) {
	for _, direction := range []storage.Direction{storage.Ascending, storage.Descending} {
		partition := fmt.Sprint("p", direction)
		var records []storage.Record
		for i := range 9 {
			records = append(records, indexed(fmt.Sprint(i, partition), i, entry(storage.RunsByDue, encode("same"), partition)))
		}
		f.putAll(records)
		q := storage.Query{Index: storage.RunsByDue, Partition: partitionOf(partition), Limit: 4, Direction: direction}
		var page storage.Page
		f.transact(func(c *call) { page = c.query(q) })
		require.Len(f, page.Records, 4)
		require.False(f, page.Resume.IsZero())
		f.transact(func(c *call) {
			for _, rec := range page.Records {
				c.remove(rec.Key)
			}
		})
		q.Resume = page.Resume
		rest := f.walk(q)
		assert.Len(f, rest, 5, "direction %d", direction)
		for _, rec := range rest {
			assert.NotContains(f, page.Records, rec)
		}
	}
}

func partitionsAreApart(f *fixture) {
	// Partitions that begin alike, in environments that begin alike.
	for i, environment := range []string{"e", "e!", "ee", "e\x7f"} {
		for j, rest := range [][]string{nil, {""}, {"a"}, {"a", "b"}, {"ab"}, {"a!"}} {
			partition := encode(append([]string{environment}, rest...)...)
			rec := number(storage.Key{Collection: storage.Runs, Partition: encode(environment), ID: encode(fmt.Sprint(i, j))}, 10*i+j)
			rec.Entries = []storage.Entry{{Index: storage.RunsByDue, Partition: partition, Sort: encode("s")}}
			f.put(rec)
		}
	}
	for i, environment := range []string{"e", "e!", "ee", "e\x7f"} {
		for j, rest := range [][]string{nil, {""}, {"a"}, {"a", "b"}, {"ab"}, {"a!"}} {
			partition := encode(append([]string{environment}, rest...)...)
			for _, direction := range []storage.Direction{storage.Ascending, storage.Descending} {
				got := f.walk(storage.Query{Index: storage.RunsByDue, Partition: partition, Direction: direction})
				require.Equal(f, []string{fmt.Sprint(i, j)}, ids(got), "partition %s", partition)
			}
			require.Empty(f, f.walk(storage.Query{Index: storage.RunsByRetention, Partition: partition}), "another index")
		}
	}
}

func theDefaultPage(f *fixture) {
	limits := storage.DefaultLimits()
	var records []storage.Record
	for i := range limits.MaxPage + 1 {
		records = append(records, indexed(fmt.Sprint(i), i, entry(storage.RunsByDue, encode("s"))))
	}
	f.putAll(records)
	assert.Len(f, f.page(storage.Query{Index: storage.RunsByDue, Partition: partitionOf()}), limits.DefaultPage)
	assert.Len(f, f.page(storage.Query{Index: storage.RunsByDue, Partition: partitionOf(), Limit: limits.MaxPage}), limits.MaxPage)
}

func serverNow(f *fixture) {
	add := func(id, sort string, later time.Duration) storage.Record {
		rec := indexed(id, 0, entry(storage.RunsByDue, sort))
		rec.Later = later
		return rec
	}
	f.put(add("exactly now", storage.CommitTime, 0))
	f.put(add("in an hour", storage.CommitTimeLater, time.Hour))
	f.put(add("long ago", encodeTime(time.Unix(0, 0)), 0))
	q := storage.Query{Index: storage.RunsByDue, Partition: partitionOf()}
	for _, lock := range []storage.Lock{storage.Candidates, storage.Exclusive} {
		q.Lock = lock
		due, ahead := q, q
		due.Until, ahead.From = storage.ServerNow(), storage.ServerNow()
		assert.Equal(f, []string{"long ago", "exactly now"}, ids(f.walk(due)))
		assert.Equal(f, []string{"in an hour"}, ids(f.walk(ahead)))
		due.Direction = storage.Descending
		assert.Equal(f, []string{"exactly now", "long ago"}, ids(f.walk(due)))
		due.From = storage.At(encodeTime(time.Unix(0, 1000)))
		assert.Equal(f, []string{"exactly now"}, ids(f.walk(due)))
		ahead.Until = storage.ServerNow()
		assert.Empty(f, f.walk(ahead), "from now until now")
	}
}

func stagedWritesAreNotSeen(f *fixture) {
	f.put(indexed("kept", 1, entry(storage.RunsByDue, encode("1"))))
	f.put(indexed("gone", 1, entry(storage.RunsByDue, encode("2"))))
	q := storage.Query{Index: storage.RunsByDue, Partition: partitionOf()}
	f.transact(func(c *call) {
		before := c.query(q)
		c.remove(keyOf(storage.Runs, "gone"))
		c.number(keyOf(storage.Runs, "kept"))
		c.replace(indexed("kept", 2, entry(storage.RunsByDue, encode("3"))))
		c.create(indexed("new", 1, entry(storage.RunsByDue, encode("0"))))
		after := c.query(q)
		c.want(slices.Equal(ids(before.Records), ids(after.Records)), "%v became %v", ids(before.Records), ids(after.Records))
		c.want(numberIn(after.Records[0]) == 1, "a staged document came out of a query")
	})
	assert.Equal(f, []string{"new", "kept"}, ids(f.page(q)))
}

func candidatesAreNoDependencies(f *fixture) {
	rec := f.put(indexed("x", 1, entry(storage.RunsByDue, encode("1"))))
	q := storage.Query{Index: storage.RunsByDue, Partition: partitionOf()}
	commit := f.transact(func(c *call) {
		c.query(q)
		f.aside(func(c *call) {
			c.number(rec.Key)
			c.replace(indexed("x", 2, entry(storage.RunsByDue, encode("2"))))
			c.create(indexed("y", 1, entry(storage.RunsByDue, encode("1"))))
		})
		c.create(number(slot("z"), 1))
	})
	assert.Equal(f, 1, commit.Attempts)

	err := f.fails(func(c *call) {
		page := c.query(q)
		c.replace(number(page.Records[0].Key, 3))
	})
	assert.ErrorIs(f, err, storage.ErrRecordNotRead, "a candidate is no read to write by")
	// Reading it makes it one, and the read is of now, not of the page.
	f.transact(func(c *call) {
		if c.attempt == 1 {
			page := c.query(q)
			f.aside(func(c *call) { c.add(rec.Key, 10) })
			c.want(c.number(rec.Key) == numberIn(page.Records[len(page.Records)-1])+10, "a read returned the candidate")
		}
	})
}

func whatCommittedIsSeen(f *fixture) {
	q := storage.Query{Index: storage.RunsByDue, Partition: partitionOf(), Limit: 500}
	for i := range 50 {
		id := fmt.Sprintf("%02d", i)
		f.put(indexed(id, i, entry(storage.RunsByDue, encode(id))))
		require.Len(f, f.page(q), i+1)
	}
	f.transact(func(c *call) {
		if c.attempt == 1 {
			c.want(len(c.query(q).Records) == 50, "the first page")
			f.aside(func(c *call) { c.create(indexed("new", 1, entry(storage.RunsByDue, encode("new")))) })
			c.want(len(c.query(q).Records) == 51, "a later query of the same transaction does not see a later commit")
		}
	})
}

func pagesHaveATime(f *fixture) {
	last := f.transact(func(c *call) { c.create(number(slot("x"), 1)) }).Time
	q := storage.Query{Index: storage.RunsByDue, Partition: partitionOf()}
	for _, lock := range []storage.Lock{storage.Candidates, storage.Exclusive} {
		q.Lock = lock
		f.transact(func(c *call) {
			page := c.query(q)
			c.want(!page.Time.Before(last), "the page's time %s is before a commit's %s", page.Time, last)
			c.want(isClean(page.Time), "the page's time %s is not in UTC and whole microseconds", page.Time)
			again := c.query(q)
			c.want(!again.Time.Before(page.Time), "time ran backwards")
		})
	}
}

func isClean(t time.Time) bool {
	return t.Location() == time.UTC && t.Equal(t.Truncate(time.Microsecond)) && !t.IsZero()
}
