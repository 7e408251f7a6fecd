package storagetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

var callbackErrors = topic{"CallbackErrors", []test{
	{name: "AreReturnedAsTheyAre", run: errorsAreReturnedAsTheyAre},
	{name: "UndoEverything", run: errorsUndoEverything},
	{name: "AreNoReasonToReplay", run: errorsAreNoReasonToReplay},
	{name: "DoNotRestOnAMixOfStates", run: errorsDoNotRestOnAMixOfStates},
	{name: "OfAMethodComeOutAtOnce", run: errorsOfAMethodComeOutAtOnce},
	{name: "ComeOutWhenAttemptsAreUsedUp", run: errorsComeOutWhenAttemptsAreUsedUp, twoOpen: true},
	{name: "APanicLeavesNothingBehind", run: aPanicLeavesNothingBehind},
	{name: "ValuesComeFromTheLastAttempt", run: valuesComeFromTheLastAttempt},
}}

func errorsAreReturnedAsTheyAre(f *fixture) {
	f.put(number(slot("x"), 1))
	plain := errors.New("no")
	wrapped := fmt.Errorf("because: %w", context.Canceled)
	for _, want := range []error{plain, wrapped, context.DeadlineExceeded, storage.ErrConflict, &storage.ConflictError{Label: "another"}} {
		for name, before := range map[string]func(c *call){
			"at once":     func(*call) {},
			"after reads": func(c *call) { c.get(slot("x")); c.get(slot("y")); c.get(slot("z")) },
			"after Now":   func(c *call) { c.get(slot("x")); c.now() },
			"after writes": func(c *call) {
				c.add(slot("x"), 1)
				c.create(number(slot("y"), 1))
			},
			"after an exclusive query": func(c *call) {
				c.query(storage.Query{Index: storage.RunsByDue, Partition: partitionOf(), Lock: storage.Exclusive})
			},
		} {
			commit, err := f.try(func(c *call) { before(c); c.stop(want) })
			assert.True(f, err == want, "%s: got %v instead of %v", name, err, want)
			assert.Equal(f, 1, commit.Attempts, name)
		}
	}
}

func errorsUndoEverything(f *fixture) {
	kept, gone, fresh := keyOf(storage.Runs, "kept"), keyOf(storage.Runs, "gone"), keyOf(storage.Runs, "fresh")
	indexed := func(key storage.Key, n int, sort string) storage.Record {
		rec := number(key, n)
		rec.Entries = []storage.Entry{entry(storage.RunsByDue, encode(sort))}
		return rec
	}
	version := f.put(indexed(kept, 1, "1")).Version
	f.put(indexed(gone, 1, "2"))
	q := storage.Query{Index: storage.RunsByDue, Partition: partitionOf()}
	before := f.page(q)
	for _, sealed := range []bool{false, true} {
		_, err := f.try(func(c *call) {
			c.number(kept)
			c.replace(indexed(kept, 2, "3"))
			c.remove(gone)
			c.create(indexed(fresh, 1, "4"))
			if sealed {
				c.now()
			}
			c.stop(errors.New("no"))
		})
		require.Error(f, err)
		assert.Equal(f, version, f.read(kept).Version)
		f.holds(kept, `{"n":1}`)
		f.holds(gone, `{"n":1}`)
		f.absent(fresh)
		assert.Equal(f, before, f.page(q), "the index changed")
	}
}

// errorsAreNoReasonToReplay: the error of one read cannot rest on a mix of states,
// and what an error says or is called makes no attempt stale.
func errorsAreNoReasonToReplay(f *fixture) {
	f.put(number(slot("x"), 1))
	commit, err := f.try(func(c *call) {
		c.add(slot("x"), 1)
		f.aside(func(c *call) { c.add(slot("x"), 1) })
		c.stop(storage.ErrConflict)
	})
	assert.True(f, err == storage.ErrConflict)
	assert.Equal(f, 1, commit.Attempts)
}

// errorsDoNotRestOnAMixOfStates reads two numbers that are always equal, and
// between the reads somebody changes both.
func errorsDoNotRestOnAMixOfStates(f *fixture) {
	a, b := slot("a"), slot("b")
	f.put(number(a, 1))
	f.put(number(b, 1))
	done := errors.New("seen")
	var seen [2]int
	commit, err := f.try(func(c *call) {
		seen[0] = c.number(a)
		if c.attempt == 1 {
			f.aside(func(c *call) { c.add(a, 1); c.add(b, 1) })
		}
		seen[1] = c.number(b)
		c.stop(done)
	})
	assert.True(f, err == done, "got %v", err)
	assert.Equal(f, [2]int{2, 2}, seen, "an error that rests on a mix of states came out")
	assert.Equal(f, 2, commit.Attempts)
}

// errorsOfAMethodComeOutAtOnce: what a method of the transaction returned is passed on
// as it is, wrapped or not, although one of two reads has become stale. The same words
// from the callback's own mouth are looked into.
func errorsOfAMethodComeOutAtOnce(f *fixture) {
	a, b := slot("a"), slot("b")
	f.put(number(a, 1))
	f.put(number(b, 1))
	for name, way := range map[string]struct {
		answer   func(err error) error
		attempts int
	}{
		"as it is": {func(err error) error { return err }, 1},
		"wrapped":  {func(err error) error { return fmt.Errorf("because: %w", err) }, 1},
		"joined":   {func(err error) error { return errors.Join(errors.New("mine"), err) }, 1},
		"copied":   {func(error) error { return storage.ErrRecordExists }, 2},
		"replaced": {func(error) error { return errors.New("mine") }, 2},
	} {
		var want error
		commit, err := f.try(func(c *call) {
			c.number(a)
			if c.attempt == 1 {
				f.aside(func(c *call) { c.add(a, 1) })
			}
			c.number(b)
			err := c.tx.Create(c, number(b, 2))
			c.want(isExists(err), "Create of a present record: %v", err)
			want = way.answer(err)
			c.stop(want)
		})
		assert.True(f, err == want, "%s: got %v instead of %v", name, err, want)
		assert.Equal(f, way.attempts, commit.Attempts, name)
	}
}

// errorsComeOutWhenAttemptsAreUsedUp makes every attempt stale, by keys that no
// earlier attempt could have locked.
func errorsComeOutWhenAttemptsAreUsedUp(f *fixture) {
	last := 0
	want := map[int]error{}
	_, err := f.try(func(c *call) {
		last = c.attempt
		a, b := slot(fmt.Sprintf("a%d", last)), slot(fmt.Sprintf("b%d", last))
		c.get(a)
		f.aside(func(c *call) { c.create(number(a, 1)); c.create(number(b, 1)) })
		c.get(b)
		want[last] = fmt.Errorf("in attempt %d", last)
		c.stop(want[last])
	})
	assert.Greater(f, last, 1)
	assert.True(f, err == want[last], "after %d attempts: %v", last, err)
}

func aPanicLeavesNothingBehind(f *fixture) {
	key := slot("x")
	f.put(number(key, 1))
	for _, sealed := range []bool{false, true} {
		assert.PanicsWithValue(f, "oh no", func() {
			_, _ = f.try(func(c *call) {
				c.add(key, 1)
				if sealed {
					c.now()
				}
				panic("oh no")
			})
		})
	}
	commit := f.transact(func(c *call) { c.add(key, 10) })
	assert.Equal(f, 1, commit.Attempts, "the panic left a lock behind")
	f.holds(key, `{"n":11}`)
}

func valuesComeFromTheLastAttempt(f *fixture) {
	key := slot("x")
	f.put(number(key, 1))
	attempt := 0
	n, commit, err := storage.Transact(f.ctx, f.store, label, func(ctx contextT, tx storage.Tx) (int, error) {
		attempt++
		rec, _, err := tx.Get(ctx, key)
		if err != nil {
			return -1, err
		}
		if attempt == 1 {
			f.aside(func(c *call) { c.add(key, 1) })
		}
		return numberIn(rec), tx.Replace(ctx, number(key, numberIn(rec)+10))
	})
	require.NoError(f, err)
	assert.Equal(f, 2, n)
	assert.Equal(f, 2, commit.Attempts)

	n, _, err = storage.Transact(f.ctx, f.store, label, func(contextT, storage.Tx) (int, error) {
		return 7, errors.New("no")
	})
	require.Error(f, err)
	assert.Zero(f, n, "a value came with an error")
}
