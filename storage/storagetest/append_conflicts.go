package storagetest

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

var appendConflicts = topic{"AppendConflicts", []test{
	{name: "AHeadThatWasReadMustStillHold", run: aHeadThatWasReadMustStillHold},
	{name: "AnItemSeenAbsentMustStayAbsent", run: anItemSeenAbsentMustStayAbsent},
	{name: "WritersInBetweenAreSeen", run: writersInBetweenAreSeen},
	{name: "AppendsMakeReadersStale", run: appendsMakeReadersStale},
	{name: "TwoThatReadTheHead", run: twoThatReadTheHead},
	{name: "WriteSkewOverStreams", run: writeSkewOverStreams},
	{name: "StreamsInAnyOrder", run: streamsInAnyOrder},
}}

// aHeadThatWasReadMustStillHold: a head is a dependency for those who read it, and
// only for them.
func aHeadThatWasReadMustStillHold(f *fixture) {
	f.put(headAt("s", 0))
	for name, change := range map[string]func(c *call){
		"appended to": func(c *call) { c.append("s", `"theirs"`) },
		"replaced":    func(c *call) { rec, _ := c.get(headOf("s")); c.replace(rec) },
	} {
		commit := f.transact(func(c *call) {
			rec, _ := c.get(headOf("s"))
			if c.attempt == 1 {
				f.aside(change)
			}
			c.append("s", fmt.Sprint(positionIn(rec)))
		})
		assert.Equal(f, 2, commit.Attempts, name)
	}
	items := f.stream("s")
	require.Len(f, items, 3)
	for _, item := range items {
		if string(item.Data) != `"theirs"` {
			sameJSON(f, fmt.Sprint(item.Position-1), item.Data)
		}
	}
	absent := f.transact(func(c *call) {
		_, found := c.get(headOf("t"))
		c.want(found == (c.attempt > 1), "the head is there: %t", found)
		if c.attempt == 1 {
			f.aside(func(c *call) { c.append("t", `"theirs"`) })
		}
		c.append("t", `"mine"`)
	})
	assert.Equal(f, 2, absent.Attempts, "an absent head")
	f.streamHolds("t", `"theirs"`, `"mine"`)
}

// anItemSeenAbsentMustStayAbsent: a blind append cannot slip past somebody who saw that
// the position is free.
func anItemSeenAbsentMustStayAbsent(f *fixture) {
	for position := range int64(2) {
		conclusion := slot(fmt.Sprint("c", position))
		commit := f.transact(func(c *call) {
			_, found := c.get(itemOf("s", position+1))
			if c.attempt == 1 {
				f.aside(func(c *call) { c.append("s", `1`) })
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
	// One's own items do not contradict what one saw.
	commit := f.transact(func(c *call) {
		_, found := c.get(itemOf("s", 3))
		c.want(!found, "the third item is there")
		c.append("s", `3`)
	})
	assert.Equal(f, 1, commit.Attempts)
	f.streamHolds("s", `1`, `1`, `3`)
}

// writersInBetweenAreSeen: between the call of Append and the commit somebody writes
// what the append is about. It goes by what is there when it commits.
func writersInBetweenAreSeen(f *fixture) {
	commit := f.transact(func(c *call) {
		c.append("s", `"mine"`)
		f.aside(func(c *call) { c.put(headAt("s", 9)) })
	})
	assert.Equal(f, 1, commit.Attempts, "an append depends on the head although it was not read")
	assert.Equal(f, []storage.Appended{{Head: headOf("s"), First: 10, Last: 10}}, commit.Appended)

	_, err := f.try(func(c *call) {
		c.append("s", `"mine"`)
		if c.attempt == 1 {
			f.aside(func(c *call) { c.create(itemAt("s", 11, `"theirs"`)) })
		}
	})
	require.ErrorIs(f, err, storage.ErrConflict)
	f.holds(headOf("s"), string(headAt("s", 10).Document))
	f.holds(itemOf("s", 11), string(itemAt("s", 11, `"theirs"`).Document))
}

// appendsMakeReadersStale who write by point operations.
func appendsMakeReadersStale(f *fixture) {
	stale := func(write func(c *call)) {
		f.Helper()
		commit := f.transact(func(c *call) {
			c.get(headOf("s"))
			if c.attempt == 1 {
				f.aside(func(c *call) { c.append("s", `1`) })
			}
			write(c)
		})
		assert.Equal(f, 2, commit.Attempts)
	}
	f.transact(func(c *call) { c.append("s", `1`) })
	stale(func(c *call) {
		rec, _ := c.get(headOf("s"))
		c.replace(headAt("s", positionIn(rec)))
	})
	stale(func(c *call) {
		rec, _ := c.get(headOf("s"))
		c.create(number(slot("seen"), int(positionIn(rec))))
	})
	f.holds(slot("seen"), `{"n":3}`)
	f.streamHolds("s", `1`, `1`, `1`)

	// A blind Create of the item that was appended meanwhile finds it.
	_, err := f.try(func(c *call) {
		c.create(itemAt("t", 1, `"by hand"`))
		if c.attempt == 1 {
			f.aside(func(c *call) { c.append("t", `1`) })
		}
	})
	assert.ErrorIs(f, err, storage.ErrRecordExists)
	_, err = f.try(func(c *call) {
		c.create(headAt("u", 7))
		if c.attempt == 1 {
			f.aside(func(c *call) { c.append("u", `1`) })
		}
	})
	assert.ErrorIs(f, err, storage.ErrRecordExists)
	f.streamHolds("t", `1`)
	f.streamHolds("u", `1`)
}

// twoThatReadTheHead: both saw the same position, so one of them has to look again.
func twoThatReadTheHead(f *fixture) {
	for _, stream := range []string{"absent", "present"} {
		last := int64(0)
		if stream == "present" {
			last = f.transact(func(c *call) { c.append(stream, `0`) }).Appended[0].Last
		}
		m := newMeeting(2)
		body := func(c *call) {
			rec, found := c.get(headOf(stream))
			seen := int64(0)
			if found {
				seen = positionIn(rec)
			}
			if c.attempt == 1 {
				m.wait(c)
			}
			c.append(stream, fmt.Sprint(seen))
		}
		first, second := f.start(body), f.start(body)
		attempts := first.commits().Attempts + second.commits().Attempts
		assert.Greater(f, attempts, 2, "neither noticed the other")
		items := f.stream(stream)
		require.Len(f, items, int(last)+2)
		for _, item := range items {
			sameJSON(f, fmt.Sprint(item.Position-1), item.Data)
		}
	}
}

// writeSkewOverStreams: each appends to its stream if the other's is empty. They hold
// what they read and wait for each other's heads, so one of them must give way.
func writeSkewOverStreams(f *fixture) {
	for round := range 3 {
		a, b := fmt.Sprint("a", round), fmt.Sprint("b", round)
		m := newMeeting(2)
		appendUnless := func(self, other string) func(c *call) {
			return func(c *call) {
				_, found := c.get(headOf(other))
				if c.attempt == 1 {
					m.wait(c)
				}
				if !found {
					c.append(self, `1`)
				}
			}
		}
		first, second := f.start(appendUnless(a, b)), f.start(appendUnless(b, a))
		first.commits()
		second.commits()
		assert.Equal(f, 1, len(f.stream(a))+len(f.stream(b)), "both appended although each saw the other's stream empty, or none did")
	}
}

// streamsInAnyOrder: whoever appends to several streams waits for their heads, and
// nobody waits in a circle or has to begin again.
func streamsInAnyOrder(f *fixture) {
	const appenders = 4
	rounds := f.rounds(15)
	streams := []string{"a", "b", "c", "d"}
	var attempts atomic.Int64
	f.together(appenders, func(worker int) error {
		random := rand.New(rand.NewPCG(4, uint64(worker)))
		for range rounds {
			order := random.Perm(len(streams))
			commit, err := f.try(func(c *call) {
				for _, i := range order {
					c.append(streams[i], fmt.Sprint(worker))
				}
			})
			if err != nil {
				return err
			}
			attempts.Add(int64(commit.Attempts))
		}
		return nil
	})
	for _, stream := range streams {
		require.Len(f, f.stream(stream), appenders*rounds)
	}
	// A machine that stands still may make somebody wait too long, but not often.
	assert.LessOrEqual(f, attempts.Load(), int64(appenders*rounds+appenders), "appends to the same streams conflict")
}
