package storagetest

import (
	"errors"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

var assumptions = topic{"Assumptions", []test{
	{name: "WhatHoldsIsUsed", run: whatHoldsIsUsed},
	{name: "WhatWasWrittenCanBeAssumed", run: whatWasWrittenCanBeAssumed},
	{name: "WhatChangedIsReadAgain", run: whatChangedIsReadAgain},
	{name: "WhatIsGoneIsFoundOut", run: whatIsGoneIsFoundOut},
	{name: "WhatAppearedIsFoundOut", run: whatAppearedIsFoundOut},
	{name: "WhatWasReadWins", run: whatWasReadWins},
	{name: "ReadingAloneIsChecked", run: readingAloneIsChecked},
	{name: "AnErrorIsChecked", run: anErrorIsChecked},
	{name: "NowChecks", run: nowChecksAssumptions},
}}

// stored is what a transaction reads, to be assumed by a later one.
func (f *fixture) stored(key storage.Key, n int) storage.Record {
	f.Helper()
	f.put(number(key, n))
	return *f.read(key)
}

func whatHoldsIsUsed(f *fixture) {
	rec, absent := f.stored(slot("x"), 1), slot("y")
	commit := f.transact(func(c *call) {
		now, found := c.assume(rec)
		c.want(found && now.Version == rec.Version && numberIn(now) == 1, "Assume returned %v", now)
		_, found = c.assumeAbsent(absent)
		c.want(!found, "AssumeAbsent found something")
		c.want(c.number(rec.Key) == 1, "a later Get returns something else")
		c.replace(number(rec.Key, 2))
		c.create(number(absent, 1))
	})
	assert.Equal(f, 1, commit.Attempts)
	f.holds(rec.Key, `{"n":2}`)
	f.holds(absent, `{"n":1}`)
}

// whatWasWrittenCanBeAssumed, with the version that the commit reports, without having
// been read.
func whatWasWrittenCanBeAssumed(f *fixture) {
	rec := number(slot("x"), 1)
	for n := 1; n < 4; n++ {
		version := f.put(rec).Version
		rec.Version = version
		commit := f.transact(func(c *call) {
			now, found := c.assume(rec)
			c.want(found && now.Version == version && numberIn(now) == n, "Assume returned %v", now)
			c.want(c.number(rec.Key) == n, "a later Get returns something else")
			c.replace(number(rec.Key, n))
		})
		assert.Equal(f, 1, commit.Attempts)
		assert.NotEqual(f, version, commit.Versions[rec.Key])
		rec = number(rec.Key, n+1)
	}
}

func whatChangedIsReadAgain(f *fixture) {
	rec := f.stored(slot("x"), 1)
	f.put(number(rec.Key, 10))
	commit := f.transact(func(c *call) {
		now, found := c.assume(rec)
		c.want(found, "x is absent")
		if c.attempt > 1 {
			c.want(numberIn(now) == 10, "a later attempt still assumes")
		}
		c.replace(number(rec.Key, numberIn(now)+1))
	})
	assert.Equal(f, 2, commit.Attempts)
	f.holds(rec.Key, `{"n":11}`)
}

func whatIsGoneIsFoundOut(f *fixture) {
	rec, witness := f.stored(slot("x"), 1), slot("w")
	f.transact(func(c *call) { c.remove(rec.Key) })
	f.transact(func(c *call) {
		_, found := c.assume(rec)
		c.want(found == (c.attempt == 1), "found is %t", found)
		if !found {
			c.create(number(witness, 1))
		} else {
			c.delete(rec.Key)
		}
	})
	f.holds(witness, `{"n":1}`)
	f.absent(rec.Key)
}

func whatAppearedIsFoundOut(f *fixture) {
	key, witness := slot("x"), slot("w")
	f.put(number(key, 7))
	commit := f.transact(func(c *call) {
		rec, found := c.assumeAbsent(key)
		c.want(found == (c.attempt > 1), "found is %t", found)
		n := 0
		if found {
			n = numberIn(rec)
		}
		c.create(number(witness, n))
	})
	assert.Equal(f, 2, commit.Attempts)
	f.holds(witness, `{"n":7}`)
}

func whatWasReadWins(f *fixture) {
	old, absent := f.stored(slot("x"), 1), slot("y")
	f.put(number(old.Key, 2))
	commit := f.transact(func(c *call) {
		c.number(old.Key)
		c.get(absent)
		now, found := c.assume(old)
		c.want(found && numberIn(now) == 2, "an assumption replaced what was read")
		now, found = c.assume(storage.Record{Key: absent, Version: old.Version, Document: old.Document})
		c.want(!found, "an assumption replaced an absence that was read: %v", now)
		_, found = c.assumeAbsent(old.Key)
		c.want(found, "an assumed absence replaced what was read")
		c.replace(number(old.Key, 3))
	})
	assert.Equal(f, 1, commit.Attempts)
}

func readingAloneIsChecked(f *fixture) {
	old, appeared := f.stored(slot("x"), 1), slot("y")
	f.put(number(old.Key, 2))
	f.put(number(appeared, 1))
	n, commit, err := storage.Transact(f.ctx, f.store, label, func(ctx contextT, tx storage.Tx) (int, error) {
		rec, _, err := tx.Assume(ctx, old)
		return numberIn(rec), err
	})
	require.NoError(f, err)
	assert.Equal(f, 2, n, "a stale assumption was returned as a read")
	assert.Equal(f, 2, commit.Attempts)

	found, _, err := storage.Transact(f.ctx, f.store, label, func(ctx contextT, tx storage.Tx) (bool, error) {
		_, found, err := tx.AssumeAbsent(ctx, appeared)
		return found, err
	})
	require.NoError(f, err)
	assert.True(f, found, "a stale absence was returned as a read")
}

func anErrorIsChecked(f *fixture) {
	old, appeared := f.stored(slot("x"), 1), slot("y")
	f.put(number(old.Key, 2))
	f.put(number(appeared, 1))
	errOld, errNew := errors.New("as assumed"), errors.New("as it is")
	for name, holds := range map[string]func(c *call) bool{
		"Assume":       func(c *call) bool { rec, _ := c.assume(old); return numberIn(rec) == 1 },
		"AssumeAbsent": func(c *call) bool { _, found := c.assumeAbsent(appeared); return !found },
	} {
		commit, err := f.try(func(c *call) {
			if holds(c) {
				c.stop(errOld)
			}
			c.stop(errNew)
		})
		require.True(f, err == errNew, "%s: an error that rests on a stale assumption came out: %v", name, err)
		assert.Equal(f, 2, commit.Attempts, name)
	}
}

func nowChecksAssumptions(f *fixture) {
	old, appeared := f.stored(slot("x"), 1), slot("y")
	f.put(number(old.Key, 2))
	f.put(number(appeared, 1))
	f.transact(func(c *call) {
		rec, _ := c.assume(old)
		c.now()
		c.want(numberIn(rec) == 2, "Now let a stale assumption pass")
	})
	f.transact(func(c *call) {
		_, found := c.assumeAbsent(appeared)
		c.now()
		c.want(found, "Now let a stale absence pass")
	})
}
