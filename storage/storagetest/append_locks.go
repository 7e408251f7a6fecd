package storagetest

import (
	"errors"
	"fmt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

var appendLocks = topic{"AppendLocks", []test{
	{name: "ASealedHeadIsHeld", run: aSealedHeadIsHeld, twoOpen: true},
	{name: "ThePositionComesAfterTheLock", run: thePositionComesAfterTheLock, twoOpen: true},
	{name: "ASealedAbsenceIsHeld", run: aSealedAbsenceIsHeld, twoOpen: true},
	{name: "AReadOnlyHeadIsHeld", run: aReadOnlyHeadIsHeld, twoOpen: true},
	{name: "HeadsComeLast", run: headsComeLast, twoOpen: true},
	{name: "ADelayedCommitIsNotPassed", run: aDelayedCommitIsNotPassed, twoOpen: true},
}}

// busily runs many small transactions, one after the other, so that whoever is not
// held up meanwhile gets to its end.
func (f *fixture) busily(what func(c *call)) {
	f.Helper()
	for i := range 25 {
		f.aside(func(c *call) {
			what(c)
			c.put(number(slot("busy"), i))
		})
	}
}

// hold seals the head of a stream while another transaction, which begins with the
// seal, wants to append to it. rest is what the holder does after giving the other
// every opportunity.
func (f *fixture) hold(see func(c *call), appends, rest func(c *call)) (held storage.Commit, appender *pending) {
	f.Helper()
	sealed, asked := make(signal), make(signal)
	appender = f.start(func(c *call) {
		if c.attempt == 1 {
			sealed.wait(c)
		}
		appends(c)
		if c.attempt == 1 {
			close(asked)
		}
	})
	held = f.transact(func(c *call) {
		see(c)
		c.now()
		if c.attempt == 1 {
			close(sealed)
			asked.wait(c)
			f.busily(func(*call) {})
		}
		rest(c)
	})
	return held, appender
}

// aSealedHeadIsHeld: nobody appends between somebody's Now and commit.
func aSealedHeadIsHeld(f *fixture) {
	f.transact(func(c *call) { c.append("s", `0`) })
	seen := int64(0)
	held, appender := f.hold(
		func(c *call) { rec, _ := c.get(headOf("s")); seen = positionIn(rec) },
		func(c *call) { c.append("s", `"theirs"`) },
		func(c *call) { c.append("s", fmt.Sprint(seen)) },
	)
	assert.Equal(f, 1, held.Attempts, "the sealed head changed all the same")
	assert.Equal(f, []storage.Appended{{Head: headOf("s"), First: 2, Last: 2}}, held.Appended)
	appender.commits()
	f.streamHolds("s", `0`, `1`, `"theirs"`)
}

// thePositionComesAfterTheLock: while an append waits for the head, whoever has it
// moves it. A position drawn before the wait would be another.
func thePositionComesAfterTheLock(f *fixture) {
	held, appender := f.hold(
		func(c *call) { c.get(headOf("s")) },
		func(c *call) { c.append("s", `"theirs"`) },
		func(c *call) { c.create(headAt("s", 100)) },
	)
	assert.Equal(f, 1, held.Attempts)
	commit := appender.commits()
	assert.Equal(f, []storage.Appended{{Head: headOf("s"), First: 101, Last: 101}}, commit.Appended)
	f.holds(headOf("s"), string(headAt("s", 101).Document))
	item := f.read(itemOf("s", 101))
	require.NotNil(f, item)
	items, err := decodeItems("s", 101, []storage.Record{*item})
	require.NoError(f, err)
	if f.store.Profile().AuthoritativeClock {
		assert.False(f, items[0].At.Before(held.Time), "the item's time %s was read before the head was locked, at %s", items[0].At, held.Time)
	}
}

// aReadOnlyHeadIsHeld: a shared lock keeps writers out, and appends are writes.
func aReadOnlyHeadIsHeld(f *fixture) {
	f.transact(func(c *call) { c.append("s", `1`) })
	var seen storage.Record
	held, appender := f.hold(
		func(c *call) { seen, _ = c.get(headOf("s"), storage.ReadOnly) },
		func(c *call) { c.append("s", `2`) },
		func(c *call) {
			now := c.peek(headOf("s"))[headOf("s")]
			c.want(now.Version == seen.Version, "the head moved to %s under somebody's Now", now.Document)
			c.create(number(slot("x"), 1))
		},
	)
	assert.Equal(f, 1, held.Attempts)
	appender.commits()
	f.streamHolds("s", `1`, `2`)
}

// aSealedAbsenceIsHeld: whoever has sealed that a position is free keeps appends out.
func aSealedAbsenceIsHeld(f *fixture) {
	f.transact(func(c *call) { c.append("s", `1`) })
	for name, mode := range map[string][]storage.ReadMode{"plain": nil, "read only": {storage.ReadOnly}} {
		commit := f.transact(func(c *call) {
			_, found := c.get(itemOf("s", 3), mode...)
			c.want(!found, "the position is taken")
			c.now()
			// The head is free, the second of the positions is not.
			calls := 0
			_, err := f.start(func(c *call) { calls = c.attempt; c.append("s", `2`, `3`) }).wait()
			var conflict *storage.ConflictError
			c.want(errors.As(err, &conflict), "%s: an append ended with %v although somebody holds its position", name, err)
			c.want(conflict.Reason == storage.ReasonLocked, "%s: %v", name, err)
			c.want(conflict.Key.IsZero() || conflict.Key == itemOf("s", 3), "%s: %v", name, err)
			c.want(calls > 1, "%s: there was no second attempt", name)
			c.create(number(slot(name), 1))
		})
		assert.Equal(f, 1, commit.Attempts, "%s: what was sealed changed all the same", name)
		f.streamHolds("s", `1`)
	}
	f.transact(func(c *call) { c.append("s", `2`, `3`) })
	f.streamHolds("s", `1`, `2`, `3`)
}

// headsComeLast: a transaction that is stale finds it out although it cannot have the
// head, and its next attempt begins without it.
func headsComeLast(f *fixture) {
	f.put(number(slot("x"), 1))
	again := make(signal)
	var appender *pending
	held := f.transact(func(c *call) {
		c.get(headOf("s"))
		c.now()
		appender = f.start(func(c *call) {
			n := c.number(slot("x"))
			switch c.attempt {
			case 1:
				f.aside(func(c *call) { c.add(slot("x"), 1) })
			case 2:
				close(again)
			}
			c.append("s", fmt.Sprint(n))
			c.replace(number(slot("x"), n+10))
		})
		select {
		case <-again:
		case <-appender.done:
			c.stop(fmt.Errorf("the second attempt did not begin: %w", appender.err))
		}
	})
	assert.Equal(f, 1, held.Attempts)
	appender.commits()
	f.streamHolds("s", `2`)
	f.holds(slot("x"), `{"n":12}`)
}

// aDelayedCommitIsNotPassed: an append to two streams waits for one of them, and may
// have its position in the other. Whoever follows that one sees what came before, or
// all of it, and never what others append behind it first.
func aDelayedCommitIsNotPassed(f *fixture) {
	// Which of two heads is locked first is the driver's business, so both come up.
	for _, names := range [][2]string{{"a", "b"}, {"d", "c"}, {"e", "f"}, {"h", "g"}} {
		f.delayed(names[0], names[1])
	}
}

func (f *fixture) delayed(followed, blocked string) {
	f.Helper()
	f.transact(func(c *call) { c.append(followed, `0`) })
	asked := newMeeting(3)
	appending := func(streams ...string) *pending {
		return f.start(func(c *call) {
			for _, stream := range streams {
				c.append(stream, fmt.Sprint(len(streams)))
			}
			if c.attempt == 1 {
				asked.wait(c)
			}
		})
	}
	var both, one *pending
	f.transact(func(c *call) {
		c.get(headOf(blocked))
		c.now()
		both, one = appending(followed, blocked), appending(followed)
		asked.wait(c)
		at := int64(1)
		f.busily(func(c *call) {
			items, err := decodeItems(followed, at+1, c.query(behind(followed, at)).Records)
			c.must(err)
			at += int64(len(items))
		})
		c.want(len(c.peek(headOf(blocked))) == 0, "the head that is held was written")
	})
	both.commits()
	one.commits()
	require.Len(f, f.stream(followed), 3)
	require.Len(f, f.stream(blocked), 1)
}
