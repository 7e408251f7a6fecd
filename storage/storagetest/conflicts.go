package storagetest

import (
	"errors"
	"fmt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

var conflicts = topic{"Conflicts", []test{
	{name: "LostUpdate", run: lostUpdate},
	{name: "LostDelete", run: lostDelete},
	{name: "TwoUpdatesAtOnce", run: twoUpdatesAtOnce},
	{name: "WriteSkew", run: writeSkew},
	{name: "Phantom", run: phantom},
	{name: "TwoPhantoms", run: twoPhantoms},
	{name: "WhatWasReadMustStillHold", run: whatWasReadMustStillHold},
	{name: "WrittenBackIsChangedToo", run: writtenBackIsChangedToo},
	{name: "ReadOnlyTransactionsSeeOneMoment", run: readOnlyTransactionsSeeOneMoment},
	{name: "AnAttemptThatIsStaleNeverCommits", run: anAttemptThatIsStaleNeverCommits},
	{name: "AReplayIsNotOvertaken", run: aReplayIsNotOvertaken, twoOpen: true},
	{name: "AttemptsAreBounded", run: attemptsAreBounded},
	{name: "UnrelatedWritesDoNotConflict", run: unrelatedWritesDoNotConflict},
}}

func lostUpdate(f *fixture) {
	key := slot("x")
	f.put(number(key, 1))
	commit := f.transact(func(c *call) {
		n := c.number(key)
		if c.attempt == 1 {
			f.aside(func(c *call) { c.add(key, 100) })
		}
		c.replace(number(key, n+1))
	})
	assert.Equal(f, 2, commit.Attempts)
	f.holds(key, `{"n":102}`)
}

// lostDelete: what was changed since it was read is not deleted unseen.
func lostDelete(f *fixture) {
	key := slot("x")
	f.put(number(key, 1))
	var saw []int
	commit := f.transact(func(c *call) {
		saw = append(saw, c.number(key))
		if c.attempt == 1 {
			f.aside(func(c *call) { c.add(key, 100) })
		}
		c.delete(key)
	})
	assert.Equal(f, 2, commit.Attempts)
	assert.Equal(f, []int{1, 101}, saw)
	f.absent(key)
}

func twoUpdatesAtOnce(f *fixture) {
	key := slot("x")
	f.put(number(key, 0))
	m := newMeeting(2)
	add := func(c *call) {
		n := c.number(key)
		if c.attempt == 1 {
			m.wait(c)
		}
		c.replace(number(key, n+1))
	}
	first, second := f.start(add), f.start(add)
	attempts := first.commits().Attempts + second.commits().Attempts
	assert.Greater(f, attempts, 2, "neither noticed the other")
	f.holds(key, `{"n":2}`)
}

// writeSkew: each of two doctors may leave if the other is on call.
func writeSkew(f *fixture) {
	a, b := slot("a"), slot("b")
	f.put(number(a, 1))
	f.put(number(b, 1))
	m := newMeeting(2)
	leave := func(self storage.Key) func(c *call) {
		return func(c *call) {
			onCall := c.number(a) + c.number(b)
			if c.attempt == 1 {
				m.wait(c)
			}
			if onCall > 1 {
				c.replace(number(self, 0))
			}
		}
	}
	first, second := f.start(leave(a)), f.start(leave(b))
	first.commits()
	second.commits()
	f.transact(func(c *call) {
		c.want(c.number(a)+c.number(b) == 1, "both left: %d and %d", c.number(a), c.number(b))
	})
}

// phantom: a blind Create cannot slip past somebody who saw that the key is absent.
func phantom(f *fixture) {
	key, conclusion := slot("x"), slot("c")
	commit := f.transact(func(c *call) {
		_, found := c.get(key)
		if c.attempt == 1 {
			f.aside(func(c *call) { c.create(number(key, 1)) })
		}
		n := 0
		if found {
			n = 1
		}
		c.create(number(conclusion, n))
	})
	assert.Equal(f, 2, commit.Attempts)
	f.holds(conclusion, `{"n":1}`)
}

// twoPhantoms: each creates its record, blindly, if the other's is absent.
func twoPhantoms(f *fixture) {
	a, b := slot("a"), slot("b")
	m := newMeeting(2)
	createUnless := func(self, other storage.Key) func(c *call) {
		return func(c *call) {
			_, found := c.get(other)
			if c.attempt == 1 {
				m.wait(c)
			}
			if !found {
				c.create(number(self, 1))
			}
		}
	}
	first, second := f.start(createUnless(a, b)), f.start(createUnless(b, a))
	first.commits()
	second.commits()
	f.transact(func(c *call) {
		found := c.getMany(a, b)
		c.want(len(found) == 1, "%d records were created", len(found))
	})
}

// whatWasReadMustStillHold tries every way to read a key and every way to change it.
func whatWasReadMustStillHold(f *fixture) {
	reads := map[string]func(c *call, key storage.Key) bool{
		"Get":      func(c *call, key storage.Key) bool { _, found := c.get(key); return found },
		"ReadOnly": func(c *call, key storage.Key) bool { _, found := c.get(key, storage.ReadOnly); return found },
		"GetMany":  func(c *call, key storage.Key) bool { return len(c.getMany(slot("other"), key)) == 1 },
	}
	type change struct {
		present bool // before
		do      func(c *call, key storage.Key)
	}
	changes := map[string]change{
		"Replace":     {true, func(c *call, key storage.Key) { c.add(key, 1) }},
		"Delete":      {true, func(c *call, key storage.Key) { c.remove(key) }},
		"Create":      {false, func(c *call, key storage.Key) { c.get(key); c.create(number(key, 1)) }},
		"BlindCreate": {false, func(c *call, key storage.Key) { c.create(number(key, 1)) }},
	}
	for how, read := range reads {
		for what, change := range changes {
			key, written := slot(how+what), slot(how+what+"written")
			if change.present {
				f.put(number(key, 1))
			}
			commit := f.transact(func(c *call) {
				c.want(read(c, key) == (change.present == (c.attempt == 1) || what == "Replace"), "%s sees something else", how)
				if c.attempt == 1 {
					f.aside(func(c *call) { change.do(c, key) })
				}
				c.create(number(written, 1))
			})
			assert.Equal(f, 2, commit.Attempts, "%s, %s", how, what)
		}
	}
}

// writtenBackIsChangedToo: versions are fences, so the same value again is another record.
func writtenBackIsChangedToo(f *fixture) {
	for name, change := range map[string]func(c *call, key storage.Key){
		"replaced by the same": func(c *call, key storage.Key) { c.add(key, 0) },
		"deleted":              func(c *call, key storage.Key) { c.remove(key) },
	} {
		key := slot(name)
		f.put(number(key, 1))
		commit := f.transact(func(c *call) {
			c.number(key)
			if c.attempt == 1 {
				f.aside(func(c *call) { change(c, key) })
				f.aside(func(c *call) { c.put(number(key, 1)) })
			}
			c.replace(number(key, 2))
		})
		assert.Equal(f, 2, commit.Attempts, name)
	}
}

func readOnlyTransactionsSeeOneMoment(f *fixture) {
	a, b := slot("a"), slot("b")
	f.put(number(a, 50))
	f.put(number(b, 50))
	sum, commit, err := storage.Transact(f.ctx, f.store, label, sumOf(f, a, b))
	require.NoError(f, err)
	assert.Equal(f, 100, sum, "the reads are of different moments")
	assert.Equal(f, 2, commit.Attempts)
}

// sumOf reads two numbers, and in a first attempt lets somebody move a part of one
// to the other in between.
func sumOf(f *fixture, a, b storage.Key) func(contextT, storage.Tx) (int, error) {
	attempt := 0
	return func(ctx contextT, tx storage.Tx) (int, error) {
		attempt++
		first, _, err := tx.Get(ctx, a)
		if err != nil {
			return 0, err
		}
		if attempt == 1 {
			f.aside(func(c *call) { c.add(a, -10); c.add(b, 10) })
		}
		second, _, err := tx.Get(ctx, b)
		if err != nil {
			return 0, err
		}
		return numberIn(first) + numberIn(second), nil
	}
}

// anAttemptThatIsStaleNeverCommits: the driver's answer to a method decides,
// whatever the callback makes of it.
func anAttemptThatIsStaleNeverCommits(f *fixture) {
	for name, answer := range map[string]error{"ignored": nil, "replaced": errors.New("mine")} {
		key, other := slot("x "+name), slot("y "+name)
		f.put(number(key, 1))
		commit := f.transact(func(c *call) {
			n := c.number(key)
			if c.attempt > 1 {
				c.create(number(other, n))
				return
			}
			f.aside(func(c *call) { c.add(key, 1) })
			_, err := c.tx.Now(c)
			c.want(errors.Is(err, storage.ErrConflict), "Now of a stale attempt returned %v", err)
			_ = c.tx.Create(c, number(other, 100))
			c.must(answer)
		})
		assert.Equal(f, 2, commit.Attempts, name)
		f.holds(other, `{"n":2}`)
	}
}

// aReplayIsNotOvertaken: it holds from the start what the attempt before read or wrote,
// so the second attempt succeeds however many want the same.
func aReplayIsNotOvertaken(f *fixture) {
	read, created := slot("read"), slot("created")
	f.put(number(read, 0))
	again := make(signal)
	var others []*pending
	for _, body := range []func(c *call){
		func(c *call) { c.add(read, 1) },
		func(c *call) { c.create(number(created, 2)) },
	} {
		others = append(others, f.start(func(c *call) {
			if c.attempt == 1 {
				again.wait(c)
			}
			body(c)
		}))
	}
	commit := f.transact(func(c *call) {
		n := c.number(read)
		switch c.attempt {
		case 1:
			f.aside(func(c *call) { c.add(read, 100) })
		case 2:
			close(again)
			f.busily(func(*call) {})
		}
		c.create(number(created, n))
	})
	assert.Equal(f, 2, commit.Attempts, "a replay was overtaken")
	others[0].commits()
	_, err := others[1].wait()
	assert.ErrorIs(f, err, storage.ErrRecordExists)
	f.holds(read, `{"n":101}`)
	f.holds(created, `{"n":100}`)
}

// attemptsAreBounded collides in every attempt with another record, which no
// earlier attempt can have locked.
func attemptsAreBounded(f *fixture) {
	const enough = 100
	key := func(n int) storage.Key { return slot(fmt.Sprint(n)) }
	f.transact(func(c *call) {
		for n := range enough {
			c.create(number(key(n), n))
		}
	})
	last := 0
	commit, err := transact(f.ctx, f.store, "a label", func(c *call) {
		last = c.attempt
		c.create(number(slot("new"), 1))
		c.create(number(key(last), 1))
	})
	require.ErrorIs(f, err, storage.ErrConflict)
	assert.True(f, storage.Retryable(err))
	var conflict *storage.ConflictError
	require.ErrorAs(f, err, &conflict)
	assert.Equal(f, "a label", conflict.Label)
	assert.Equal(f, last, conflict.Attempts)
	assert.Equal(f, last, commit.Attempts)
	assert.Equal(f, storage.ReasonExists, conflict.Reason)
	if !conflict.Key.IsZero() {
		assert.Equal(f, key(last), conflict.Key)
	}
	assert.Greater(f, last, 1)
	assert.Less(f, last, enough)
	f.absent(slot("new"))
	f.holds(key(1), `{"n":1}`)
}

func unrelatedWritesDoNotConflict(f *fixture) {
	key, other := slot("x"), slot("y")
	f.put(number(key, 1))
	f.put(number(other, 1))
	commit := f.transact(func(c *call) {
		c.number(key)
		f.aside(func(c *call) {
			c.add(other, 1)
			c.create(number(slot("z"), 1))
			c.create(number(keyOf(storage.SingletonOwners, "x"), 1))
		})
		c.replace(number(key, 2))
	})
	assert.Equal(f, 1, commit.Attempts)
}
