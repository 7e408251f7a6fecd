package storagetest

import (
	"fmt"
	"math"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

var streamRecords = topic{"StreamsAreRecords", []test{
	{name: "HeadsCanBeRead", run: headsCanBeRead},
	{name: "HeadsCanBeWritten", run: headsCanBeWritten},
	{name: "HeadsCanBeWrittenWithTheAppend", run: headsCanBeWrittenWithTheAppend},
	{name: "AStreamCanBeBegunAgain", run: aStreamCanBeBegunAgain},
	{name: "ItemsCanBeWritten", run: itemsCanBeWritten},
	{name: "WhatIsThereIsNotOverwritten", run: whatIsThereIsNotOverwritten},
	{name: "UnknownHeadsAreRefused", run: unknownHeadsAreRefused},
	{name: "PagesOfEverySize", run: pagesOfAStream},
}}

func headsCanBeRead(f *fixture) {
	for position := range int64(3) {
		commit := f.transact(func(c *call) {
			rec, found := c.get(headOf("s"))
			c.want(found == (position > 0) && (!found || positionIn(rec) == position), "the head is %s", rec.Document)
			c.append("s", fmt.Sprint(position))
		})
		assert.Equal(f, 1, commit.Attempts, "a head that was read and appended to")
		assert.Equal(f, []storage.Appended{{Head: headOf("s"), First: position + 1, Last: position + 1}}, commit.Appended)
	}
	rec := f.read(headOf("s"))
	commit := f.transact(func(c *call) {
		now, found := c.assume(*rec)
		c.want(found && positionIn(now) == 3, "Assume returned %s", now.Document)
		c.append("s", `3`)
	})
	assert.Equal(f, 1, commit.Attempts, "a head that was assumed and appended to")
	f.streamHolds("s", `0`, `1`, `2`, `3`)
}

// headsCanBeWritten by anybody: an append goes on behind what they say.
func headsCanBeWritten(f *fixture) {
	f.put(headAt("s", 41))
	commit := f.transact(func(c *call) { c.append("s", `1`, `2`) })
	assert.Equal(f, []storage.Appended{{Head: headOf("s"), First: 42, Last: 43}}, commit.Appended)
	f.put(headAt("s", 100))
	commit = f.transact(func(c *call) { c.append("s", `3`) })
	assert.Equal(f, []storage.Appended{{Head: headOf("s"), First: 101, Last: 101}}, commit.Appended)
	var data []string
	for _, rec := range f.walk(streamQuery("s")) {
		o, _ := codec.DecodeObservation(rec)
		data = append(data, string(o.Data))
	}
	assert.Equal(f, []string{`1`, `2`, `3`}, data)
	f.put(headAt("t", 0))
	f.transact(func(c *call) { c.append("t", `1`) })
	f.streamHolds("t", `1`)
}

// headsCanBeWrittenWithTheAppend: the append comes after the writes of its own
// transaction, wherever it was called.
func headsCanBeWrittenWithTheAppend(f *fixture) {
	f.put(headAt("replaced", 5))
	f.put(headAt("deleted", 5))
	commit := f.transact(func(c *call) {
		c.append("created", `1`)
		c.append("replaced", `2`)
		c.append("deleted", `3`)
		c.create(headAt("created", 10))
		c.get(headOf("replaced"))
		c.replace(headAt("replaced", 20))
		c.remove(headOf("deleted"))
		c.append("created", `4`)
	})
	assert.Equal(f, 1, commit.Attempts)
	assert.Equal(f, []storage.Appended{
		{Head: headOf("created"), First: 11, Last: 12}, {Head: headOf("replaced"), First: 21, Last: 21}, {Head: headOf("deleted"), First: 1, Last: 1},
	}, commit.Appended)
	f.versionsAreTrue(commit)
	for _, rec := range []storage.Record{headAt("created", 12), headAt("replaced", 21), headAt("deleted", 1)} {
		f.holds(rec.Key, string(rec.Document))
	}
	require.NotNil(f, f.read(itemOf("replaced", 21)))

	// Created, taken back and appended to: as if it had only been appended to.
	commit = f.transact(func(c *call) {
		c.create(headAt("t", 50))
		c.delete(headOf("t"))
		c.append("t", `1`)
	})
	assert.Equal(f, []storage.Appended{{Head: headOf("t"), First: 1, Last: 1}}, commit.Appended)
	f.streamHolds("t", `1`)
}

func aStreamCanBeBegunAgain(f *fixture) {
	f.transact(func(c *call) { c.append("s", `"old 1"`, `"old 2"`) })
	commit := f.transact(func(c *call) {
		c.remove(headOf("s"))
		c.remove(itemOf("s", 1))
		c.remove(itemOf("s", 2))
		c.append("s", `"new"`)
	})
	assert.Equal(f, 1, commit.Attempts)
	f.versionsAreTrue(commit)
	f.streamHolds("s", `"new"`)

	// Old items can go without the others: positions are never given out again.
	f.transact(func(c *call) { c.append("s", `2`, `3`) })
	f.transact(func(c *call) { c.remove(itemOf("s", 1)); c.append("s", `4`) })
	items := f.streamBehind("s", 1)
	require.Len(f, items, 3)
	sameJSON(f, `4`, items[2].Data)
}

// itemsCanBeWritten by hand, and an append goes on behind them.
func itemsCanBeWritten(f *fixture) {
	f.transact(func(c *call) {
		c.create(itemAt("s", 1, `"by hand"`))
		c.create(headAt("s", 1))
	})
	f.transact(func(c *call) { c.append("s", `2`) })
	f.transact(func(c *call) {
		c.get(itemOf("s", 1))
		c.replace(itemAt("s", 1, `"again"`))
		c.append("s", `3`)
	})
	f.streamHolds("s", `"again"`, `2`, `3`)
}

// whatIsThereIsNotOverwritten: a head that is behind its records, or gone, makes every
// attempt collide.
func whatIsThereIsNotOverwritten(f *fixture) {
	appended := func(c *call) { c.append("s", `1`, `2`) }
	for name, before := range map[string][]func(c *call){
		"a head that is gone":     {appended, func(c *call) { c.remove(headOf("s")) }},
		"a head that went back":   {appended, func(c *call) { c.put(headAt("s", 1)) }},
		"a record without a head": {func(c *call) { c.create(itemAt("s", 1, `"by hand"`)) }},
		"a record ahead":          {appended, func(c *call) { c.create(itemAt("s", 4, `"by hand"`)) }},
		"an unknown record":       {func(c *call) { c.create(number(itemOf("s", 1), 1)) }},
	} {
		f.transact(func(c *call) {
			for _, key := range []storage.Key{headOf("s"), itemOf("s", 1), itemOf("s", 2), itemOf("s", 3), itemOf("s", 4)} {
				if _, found := c.get(key); found {
					c.delete(key)
				}
			}
		})
		for _, body := range before {
			f.transact(body)
		}
		calls := 0
		commit, err := f.try(func(c *call) {
			calls = c.attempt
			c.append("t", `"not this either"`)
			c.append("s", `"new 1"`, `"new 2"`)
			c.create(number(slot("x"), 1))
		})
		var conflict *storage.ConflictError
		require.ErrorAs(f, err, &conflict, name)
		assert.Equal(f, storage.ReasonExists, conflict.Reason, name)
		if !conflict.Key.IsZero() {
			assert.Equal(f, storage.ObservationRecords, conflict.Key.Collection, name)
		}
		assert.Greater(f, calls, 1, name)
		assert.Equal(f, calls, commit.Attempts, name)
		f.absent(slot("x"))
		f.streamHolds("t")
	}
	// With its own write a transaction collides as well.
	_, err := f.try(func(c *call) {
		c.create(itemAt("u", 1, `"by hand"`))
		c.append("u", `1`)
	})
	assert.ErrorIs(f, err, storage.ErrConflict)
	f.absent(itemOf("u", 1))
}

// unknownHeads are documents under the head of the stream "s" from which no position
// can be learnt.
func unknownHeads() map[string]string {
	whole := func(codec string, v int, stream, position string) string {
		return fmt.Sprintf(`{"codec":%q,"v":%d,"value":{"environment":%q,"stream":%q,"position":%s}}`, codec, v, env, stream, position)
	}
	return map[string]string{
		"no envelope":                `{"n":1}`,
		"not even an object":         `7`,
		"null":                       `null`,
		"a later version":            whole("observation_head", 2, "s", "1"),
		"another codec":              whole("observation", 1, "s", "1"),
		"another stream":             whole("observation_head", 1, "t", "1"),
		"a position below the first": whole("observation_head", 1, "s", "-1"),
		"a position in between":      whole("observation_head", 1, "s", "1.5"),
		"a position that is text":    whole("observation_head", 1, "s", `"1"`),
		"no position":                whole("observation_head", 1, "s", `null`),
		"a position beyond 64 bits":  whole("observation_head", 1, "s", "9223372036854775808"),
		"a position far beyond":      whole("observation_head", 1, "s", "1e300"),
		"the last position":          whole("observation_head", 1, "s", fmt.Sprint(math.MaxInt64)),
		"a mark":                     whole("observation_head", 1, "s", "\"\x01\""),
		"one more member":            `{"codec":"observation_head","v":1,"value":{"environment":"env","stream":"s","position":1,"more":1}}`,
		"one more in the envelope":   `{"codec":"observation_head","v":1,"more":1,"value":{"environment":"env","stream":"s","position":1}}`,
		"a tombstone":                `{"codec":"observation_head","v":1,"tombstone":true,"value":{"environment":"env","stream":"s","position":1}}`,
	}
}

func unknownHeadsAreRefused(f *fixture) {
	for name, document := range unknownHeads() {
		rec := f.put(storage.Record{Key: headOf("s"), Document: []byte(document)})
		for _, own := range []bool{false, true} {
			calls := 0
			commit, err := f.try(func(c *call) {
				calls++
				c.append("other", `1`)
				if own { // the head is written by the transaction itself
					c.get(headOf("s"))
					c.replace(storage.Record{Key: headOf("s"), Document: []byte(document)})
				}
				c.append("s", `1`)
				c.create(number(slot("x"), 1))
			})
			var refused *storage.InputError
			if assert.ErrorAs(f, err, &refused, name) {
				assert.Equal(f, storage.InputError{Kind: storage.ErrInvalidDocument, Key: headOf("s"), Field: "head", Reason: refused.Reason}, *refused, name)
			}
			assert.Equal(f, 1, calls, "%s: it will not get better", name)
			assert.Empty(f, commit.Appended)
			assert.Equal(f, rec.Version, f.read(headOf("s")).Version, name)
			f.absent(slot("x"))
			f.absent(itemOf("s", 1))
			f.streamHolds("other")
		}
	}
	// Whoever puts the head right can append at once.
	f.transact(func(c *call) {
		c.get(headOf("s"))
		c.replace(headAt("s", 0))
		c.append("s", `1`)
	})
	f.streamHolds("s", `1`)
}

func pagesOfAStream(f *fixture) {
	var items, backwards []string
	for i := range 23 {
		items = append(items, fmt.Sprint(i))
		backwards = append([]string{fmt.Sprint(i)}, backwards...)
	}
	for i := 0; i < len(items); i += 5 {
		f.transact(func(c *call) { c.append("s", items[i:min(i+5, len(items))]...) })
	}
	for limit := 1; limit <= len(items)+1; limit++ {
		for direction, want := range [][]string{storage.Ascending: items, storage.Descending: backwards} {
			for _, lock := range []storage.Lock{storage.Candidates, storage.Exclusive} {
				q := streamQuery("s")
				q.Limit, q.Direction, q.Lock = limit, storage.Direction(direction), lock
				var got []string
				for _, rec := range f.walk(q) {
					o, _ := codec.DecodeObservation(rec)
					got = append(got, string(o.Data))
				}
				require.Equal(f, want, got, "limit %d, direction %d, lock %d", limit, direction, lock)
			}
		}
		rest, err := decodeItems("s", 10, f.walk(behind("s", 9)))
		require.NoError(f, err)
		require.Len(f, rest, len(items)-9)
	}
}
