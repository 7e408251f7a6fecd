package storagetest

import (
	"errors"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

var now = topic{"Now", []test{
	{name: "IsOneTime", run: nowIsOneTime},
	{name: "SealsTheReadSet", run: nowSealsTheReadSet},
	{name: "ChecksWhatWasRead", run: nowChecksWhatWasRead},
	{name: "ChecksBlindCreates", run: nowChecksBlindCreates},
	{name: "ComesAfterTheLocks", run: nowComesAfterTheLocks, twoOpen: true, lacks: lacksClock},
	{name: "HoldsWhatItLocked", run: nowHoldsWhatItLocked, twoOpen: true},
	{name: "HoldsWhatWasStaged", run: nowHoldsWhatWasStaged, twoOpen: true},
	{name: "KeepsReadersFromWhatIsWritten", run: nowKeepsReadersFromWhatIsWritten, twoOpen: true},
	{name: "SharesReadOnlyKeys", run: nowSharesReadOnlyKeys, twoOpen: true},
	{name: "IsBeforeTheCommit", run: nowIsBeforeTheCommit, lacks: lacksClock},
}}

func nowIsOneTime(f *fixture) {
	f.transact(func(c *call) {
		first := c.now()
		c.want(isClean(first), "%s is not in UTC and whole microseconds", first)
		c.create(number(slot("x"), 1))
		c.query(storage.Query{Index: storage.RunsByDue, Partition: partitionOf()})
		c.query(storage.Query{Index: storage.RunsByDue, Partition: partitionOf(), Lock: storage.Exclusive})
		c.want(c.now().Equal(first), "a later call returned another time")
	})
}

func nowSealsTheReadSet(f *fixture) {
	read, absent, staged, unknown := slot("read"), slot("absent"), slot("staged"), slot("unknown")
	rec := f.stored(read, 1)
	other := f.stored(unknown, 1)
	q := f.queue(2)
	commit := f.transact(func(c *call) {
		c.number(read)
		c.get(absent)
		c.create(number(staged, 1))
		c.now()
		sealed := func(what string, err error) {
			c.want(errors.Is(err, storage.ErrSealed), "%s of a key outside the read set: %v", what, err)
		}
		_, _, err := c.tx.Get(c, unknown)
		sealed("Get", err)
		_, _, err = c.tx.Get(c, unknown, storage.ReadOnly)
		sealed("read-only Get", err)
		_, err = c.tx.GetMany(c, []storage.Key{read, unknown})
		sealed("GetMany", err)
		_, _, err = c.tx.Assume(c, other)
		sealed("Assume", err)
		_, _, err = c.tx.AssumeAbsent(c, slot("nowhere"))
		sealed("AssumeAbsent", err)

		c.want(len(c.getMany(read, absent, staged)) == 2, "keys inside the read set can no longer be read")
		_, found := c.assume(rec)
		c.want(found, "Assume of a key inside the read set")
		c.want(len(c.claim(q, 2)) == 2, "queries are legal")
		c.want(len(c.peek(unknown, read)) == 2, "Peek is legal")
		c.create(number(slot("later"), 1))
		c.replace(number(read, 2))
		c.create(number(absent, 1))
		c.want(c.number(slot("later")) == 1, "what was staged after Now cannot be read")
	})
	assert.Equal(f, 1, commit.Attempts)
	f.holds(slot("later"), `{"n":1}`)
	f.holds(absent, `{"n":1}`)
	f.holds(read, `{"n":2}`)
	f.holds(staged, `{"n":1}`)
}

func nowChecksWhatWasRead(f *fixture) {
	for name, change := range map[string]func(c *call, key storage.Key){
		"replaced": func(c *call, key storage.Key) { c.add(key, 1) },
		"deleted":  func(c *call, key storage.Key) { c.remove(key) },
	} {
		key := slot(name)
		f.put(number(key, 1))
		commit := f.transact(func(c *call) {
			c.get(key)
			if c.attempt == 1 {
				f.aside(func(c *call) { change(c, key) })
			}
			_, err := c.tx.Now(c)
			c.want((err == nil) == (c.attempt > 1), "%s: Now returned %v", name, err)
			c.must(err)
		})
		assert.Equal(f, 2, commit.Attempts, name)
	}
}

func nowChecksBlindCreates(f *fixture) {
	key := slot("x")
	f.put(number(key, 1))
	commit, err := f.try(func(c *call) {
		c.create(number(key, 2))
		c.now()
		c.stop(errors.New("Now let a blind Create of a present record pass"))
	})
	require.ErrorIs(f, err, storage.ErrRecordExists)
	assert.Equal(f, 2, commit.Attempts)
}

// nowComesAfterTheLocks: of two transactions that lock one key, the one that gets
// it later sees a later time. A time read before waiting for the lock would be earlier.
func nowComesAfterTheLocks(f *fixture) {
	key := slot("x")
	f.put(number(key, 0))
	locked, read := make(signal), make(signal)
	var second *pending
	times := map[int]int64{}
	second = f.start(func(c *call) {
		if c.attempt == 1 {
			locked.wait(c)
		}
		n := c.number(key)
		if c.attempt == 1 {
			close(read)
		}
		now := c.now()
		times[n] = now.UnixMicro()
		c.replace(number(key, n+1))
	})
	first := f.transact(func(c *call) {
		c.number(key)
		c.now()
		if c.attempt == 1 {
			close(locked)
			read.wait(c)
		}
		c.replace(number(key, 1))
	})
	commit := second.commits()
	assert.GreaterOrEqual(f, times[1], first.Time.UnixMicro(), "the time was read before the lock was had")
	assert.False(f, commit.Time.Before(first.Time))
	f.holds(key, `{"n":2}`)
}

// nowHoldsWhatItLocked: after Now nobody can change what was read, so the commit
// cannot fail for it.
func nowHoldsWhatItLocked(f *fixture) {
	key, absent := slot("x"), slot("y")
	f.put(number(key, 1))
	sealed, read := make(signal), make(signal)
	writer := f.start(func(c *call) {
		if c.attempt == 1 {
			sealed.wait(c)
		}
		n := c.number(key)
		_, found := c.get(absent)
		if c.attempt == 1 {
			close(read)
		}
		c.replace(number(key, n*10))
		if !found {
			c.create(number(absent, 1))
		}
	})
	commit := f.transact(func(c *call) {
		n := c.number(key)
		c.get(absent)
		c.now()
		if c.attempt == 1 {
			close(sealed)
			read.wait(c)
		}
		c.replace(number(key, n+1))
		c.create(number(absent, 7))
	})
	assert.Equal(f, 1, commit.Attempts, "what was sealed changed all the same")
	writer.commits()
	f.holds(key, `{"n":20}`)
	f.holds(absent, `{"n":7}`)
}

// nowHoldsWhatWasStaged: a key that was created blindly is as safe after Now as one that
// was read.
func nowHoldsWhatWasStaged(f *fixture) {
	key := slot("x")
	sealed, asked := make(signal), make(signal)
	other := f.start(func(c *call) {
		if c.attempt == 1 {
			sealed.wait(c)
		}
		err := c.tx.Create(c, number(key, 2))
		if c.attempt == 1 {
			close(asked)
		}
		c.must(err)
	})
	commit := f.transact(func(c *call) {
		c.create(number(key, 1))
		c.now()
		if c.attempt == 1 {
			close(sealed)
			asked.wait(c)
			f.busily(func(*call) {})
		}
	})
	assert.Equal(f, 1, commit.Attempts, "what was staged and sealed was created by somebody else")
	_, err := other.wait()
	assert.ErrorIs(f, err, storage.ErrRecordExists)
	f.holds(key, `{"n":1}`)
}

// nowKeepsReadersFromWhatIsWritten: a reader cannot seal what somebody else has sealed
// to write it; if it could, its own commit would find the key changed after Now.
func nowKeepsReadersFromWhatIsWritten(f *fixture) {
	for name, mode := range map[string][]storage.ReadMode{"plain": nil, "read only": {storage.ReadOnly}} {
		key := slot(name)
		f.put(number(key, 1))
		sealed, read := make(signal), make(signal)
		sealedReads := 0
		reader := f.start(func(c *call) {
			if c.attempt == 1 {
				sealed.wait(c)
			}
			n := c.number(key, mode...)
			if c.attempt == 1 {
				close(read)
			}
			c.now()
			sealedReads++
			c.create(number(slot("seen "+name), n))
		})
		commit := f.transact(func(c *call) {
			c.add(key, 1)
			c.now()
			if c.attempt == 1 {
				close(sealed)
				read.wait(c)
			}
		})
		assert.Equal(f, 1, commit.Attempts, name)
		reader.commits()
		assert.Equal(f, 1, sealedReads, "%s: what was sealed changed all the same", name)
		f.holds(slot("seen "+name), `{"n":2}`)
	}
}

func nowSharesReadOnlyKeys(f *fixture) {
	key := slot("x")
	f.put(number(key, 1))
	m := newMeeting(2)
	read := func(own storage.Key) func(c *call) {
		return func(c *call) {
			c.number(key, storage.ReadOnly)
			c.get(slot("absent"), storage.ReadOnly)
			c.now()
			if c.attempt == 1 {
				m.wait(c) // both hold it
			}
			c.create(number(own, 1))
		}
	}
	first, second := f.start(read(slot("a"))), f.start(read(slot("b")))
	assert.Equal(f, 1, first.commits().Attempts)
	assert.Equal(f, 1, second.commits().Attempts)
}

func nowIsBeforeTheCommit(f *fixture) {
	last := f.transact(func(c *call) { c.create(number(slot("a"), 1)) }).Time
	for i := range 5 {
		key := slot(string(rune('b' + i)))
		var seen int64
		commit := f.transact(func(c *call) {
			c.get(key)
			seen = c.now().UnixMicro()
			c.create(number(key, 1))
		})
		assert.LessOrEqual(f, last.UnixMicro(), seen, "time ran backwards")
		assert.LessOrEqual(f, seen, commit.Time.UnixMicro(), "the commit was before Now")
		assert.True(f, isClean(commit.Time))
		last = commit.Time
	}
}
