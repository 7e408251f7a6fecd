package storagetest

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

var writes = topic{"Writes", []test{
	{name: "CreateReplaceDelete", run: createReplaceDelete},
	{name: "WritesOfOneKeyCombine", run: writesOfOneKeyCombine},
	{name: "ACreateTakenBackStillExpectsAbsence", run: aCreateTakenBackStillExpectsAbsence},
	{name: "ManyCollectionsInOneCommit", run: manyCollectionsInOneCommit},
	{name: "ReplaceMovesEntries", run: replaceMovesEntries},
	{name: "NothingWritten", run: nothingWritten},
	{name: "FiveHundredRecordsAtOnce", run: fiveHundredRecordsAtOnce},
}}

func createReplaceDelete(f *fixture) {
	key := slot("x")
	created := f.transact(func(c *call) { c.create(number(key, 1)) })
	assert.Equal(f, 1, created.Attempts)
	assert.False(f, created.Time.IsZero(), "the commit has no time")
	assert.Len(f, created.Versions, 1)
	f.holds(key, `{"n":1}`)

	replaced := f.transact(func(c *call) { c.add(key, 1) })
	assert.Equal(f, 1, replaced.Attempts)
	assert.False(f, replaced.Time.Before(created.Time), "time ran backwards")
	f.holds(key, `{"n":2}`)

	deleted := f.transact(func(c *call) { c.remove(key) })
	assert.Equal(f, 1, deleted.Attempts)
	assert.False(f, deleted.Time.IsZero(), "a Delete is a write, so the commit has a time")
	f.absent(key)
}

// writesOfOneKeyCombine tries every sequence of up to four writes of one key that
// is present, absent, or absent and not read, and compares with what the sequence
// means when it is carried out step by step.
func writesOfOneKeyCombine(f *fixture) {
	var sequences []string
	var grow func(present bool, sequence string)
	grow = func(present bool, sequence string) {
		if sequence != "" {
			sequences = append(sequences, sequence)
		}
		if len(sequence) == 5 { // a letter for the start and four steps
			return
		}
		if present {
			grow(true, sequence+"R")
			grow(false, sequence+"D")
		} else {
			grow(true, sequence+"C")
		}
	}
	grow(true, "p")
	grow(false, "a")
	grow(false, "b")

	for _, sequence := range sequences {
		key := keyOf(storage.Runs, sequence)
		f.combine(key, sequence)
	}
}

func (f *fixture) combine(key storage.Key, sequence string) {
	f.Helper()
	start, steps := sequence[0], sequence[1:]
	present, n := start == 'p', 0
	if present {
		rec := number(key, 0)
		rec.Entries = []storage.Entry{entry(storage.RunsByRetention, encode(sequence), sequence)}
		f.put(rec)
	}
	commit := f.transact(func(c *call) {
		if start != 'b' {
			c.get(key)
		}
		for i, step := range steps {
			rec := number(key, i+1)
			rec.Entries = []storage.Entry{entry(storage.RunsByDue, encode(fmt.Sprint(i+1)), sequence)}
			switch step {
			case 'C':
				c.create(rec)
			case 'R':
				c.replace(rec)
			case 'D':
				c.delete(key)
			}
		}
	})
	if steps != "" {
		present = steps[len(steps)-1] != 'D'
		n = len(steps)
	}
	assert.Equal(f, 1, commit.Attempts, sequence)
	if steps != "" && present {
		assert.Len(f, commit.Versions, 1, sequence)
	} else {
		assert.Empty(f, commit.Versions, sequence)
	}
	written := steps != "" && (start == 'p' || present)
	assert.Equal(f, written, !commit.Time.IsZero(), "%s: the commit's time is %s", sequence, commit.Time)
	if !present {
		f.absent(key)
	} else {
		f.holds(key, fmt.Sprintf(`{"n":%d}`, n))
	}
	due := f.page(storage.Query{Index: storage.RunsByDue, Partition: partitionOf(sequence)})
	retained := f.page(storage.Query{Index: storage.RunsByRetention, Partition: partitionOf(sequence)})
	assert.Equal(f, steps != "" && present, len(due) == 1, "%s: the last write's entry", sequence)
	assert.Equal(f, steps == "" && present, len(retained) == 1, "%s: the first record's entry", sequence)
}

// page is one page of candidates, read by a transaction of its own.
func (f *fixture) page(q storage.Query) []storage.Record {
	f.Helper()
	var records []storage.Record
	f.transact(func(c *call) { records = c.query(q).Records })
	return records
}

func aCreateTakenBackStillExpectsAbsence(f *fixture) {
	key, witness := slot("x"), slot("w")
	saw := ""
	commit := f.transact(func(c *call) {
		saw = "absent"
		err := c.tx.Create(c, number(key, 1))
		if err == nil {
			c.delete(key)
		} else {
			c.want(isExists(err), "Create: %v", err)
			saw = "present"
		}
		if c.attempt == 1 {
			f.aside(func(c *call) { c.create(number(key, 2)) })
		}
		c.create(storage.Record{Key: witness, Document: []byte(fmt.Sprintf("%q", saw))})
	})
	assert.Greater(f, commit.Attempts, 1, "the expectation of absence was forgotten")
	f.holds(witness, `"present"`)
	f.holds(key, `{"n":2}`)
}

func manyCollectionsInOneCommit(f *fixture) {
	every := func(id string) (all []storage.Key) {
		for _, collection := range storage.Collections() {
			all = append(all, keyOf(collection, id))
		}
		return all
	}
	kept, gone, fresh := every("kept"), every("gone"), every("fresh")
	f.transact(func(c *call) {
		for _, key := range append(every("kept"), gone...) {
			c.create(number(key, 1))
		}
	})
	commit := f.transact(func(c *call) {
		for i := range kept {
			c.add(kept[i], 1)
			c.remove(gone[i])
			c.create(number(fresh[i], 3))
		}
	})
	assert.Len(f, commit.Versions, len(kept)+len(fresh))
	for i := range kept {
		f.holds(kept[i], `{"n":2}`)
		f.absent(gone[i])
		f.holds(fresh[i], `{"n":3}`)
	}
}

func replaceMovesEntries(f *fixture) {
	key := keyOf(storage.Runs, "x")
	rec := number(key, 1)
	rec.Entries = []storage.Entry{entry(storage.RunsByDue, encode("1"), "a"), entry(storage.RunsByRetention, encode("1"), "a")}
	f.put(rec)
	in := func(ix storage.Index, partition string) int {
		return len(f.page(storage.Query{Index: ix, Partition: partitionOf(partition)}))
	}
	require.Equal(f, 1, in(storage.RunsByDue, "a"))
	require.Equal(f, 1, in(storage.RunsByRetention, "a"))

	rec.Entries = []storage.Entry{entry(storage.RunsByDue, encode("1"), "b"), entry(storage.RunsByLeaseExpiry, encode("1"), "a")}
	f.put(rec)
	assert.Equal(f, 0, in(storage.RunsByDue, "a"), "an old entry remains")
	assert.Equal(f, 1, in(storage.RunsByDue, "b"), "a new entry is missing")
	assert.Equal(f, 0, in(storage.RunsByRetention, "a"), "an entry that was left out remains")
	assert.Equal(f, 1, in(storage.RunsByLeaseExpiry, "a"), "an added entry is missing")

	f.put(number(key, 2))
	assert.Equal(f, 0, in(storage.RunsByDue, "b")+in(storage.RunsByLeaseExpiry, "a"), "a record without entries is still indexed")
}

func nothingWritten(f *fixture) {
	f.put(number(slot("x"), 1))
	for name, body := range map[string]func(*call){
		"nothing": func(*call) {},
		"reads":   func(c *call) { c.number(slot("x")) },
		"now":     func(c *call) { c.number(slot("x")); c.now() },
		"wake":    func(c *call) { c.wake("topic") },
		"queries": func(c *call) {
			c.query(storage.Query{Index: storage.RunsByDue, Partition: partitionOf(), Lock: storage.Exclusive})
		},
	} {
		commit := f.transact(body)
		assert.Equal(f, 1, commit.Attempts, name)
		assert.Empty(f, commit.Versions, name)
		assert.True(f, commit.Time.IsZero(), "%s: nothing was written, yet the commit has the time %s", name, commit.Time)
	}
}

func fiveHundredRecordsAtOnce(f *fixture) {
	const n = 500
	var keys []storage.Key
	for i := range n {
		keys = append(keys, slot(fmt.Sprintf("%03d%s", i, strings.Repeat("x", i%50))))
	}
	commit := f.transact(func(c *call) {
		for i, key := range keys {
			c.create(number(key, i))
		}
	})
	assert.Len(f, commit.Versions, n)
	commit = f.transact(func(c *call) {
		for key, rec := range c.getMany(keys...) {
			c.replace(number(key, numberIn(rec)+1))
		}
	})
	assert.Len(f, commit.Versions, n)
	f.transact(func(c *call) {
		found := c.getMany(keys...)
		for i, key := range keys {
			c.want(numberIn(found[key]) == i+1, "%s holds %s", key, found[key].Document)
		}
	})
}
