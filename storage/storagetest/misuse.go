package storagetest

import (
	"context"
	"errors"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

// contextT keeps the signatures of callbacks short.
type contextT = context.Context

var misuse = topic{"Misuse", []test{
	{name: "CreateOfWhatIsThere", run: createOfWhatIsThere},
	{name: "BlindCreateOfWhatIsThere", run: blindCreateOfWhatIsThere},
	{name: "WriteOfWhatWasNotRead", run: writeOfWhatWasNotRead},
	{name: "WriteOfWhatIsAbsent", run: writeOfWhatIsAbsent},
	{name: "WriteOfAReadOnlyKey", run: writeOfAReadOnlyKey},
	{name: "APromiseAfterAWriteDoesNotCount", run: aPromiseAfterAWriteDoesNotCount},
	{name: "MisuseLeavesTheTransactionAsItWas", run: misuseLeavesTheTransactionAsItWas},
	{name: "NestedTransaction", run: nestedTransaction},
	{name: "NestedUnderAnotherContext", run: nestedUnderAnotherContext, twoOpen: true},
	{name: "UseAfterTheCallback", run: useAfterTheCallback},
}}

func isExists(err error) bool { return errors.Is(err, storage.ErrRecordExists) }

// fails runs a transaction that the test expects to fail.
func (f *fixture) fails(body func(c *call)) error {
	f.Helper()
	_, err := f.try(body)
	require.Error(f, err)
	return err
}

func createOfWhatIsThere(f *fixture) {
	key := slot("x")
	rec := f.stored(key, 1)
	for name, see := range map[string]func(c *call){
		"Get":     func(c *call) { c.get(key) },
		"GetMany": func(c *call) { c.getMany(slot("y"), key) },
		"Replace": func(c *call) { c.add(key, 1) },
		"Assume":  func(c *call) { c.assume(rec) },
	} {
		err := f.fails(func(c *call) {
			see(c)
			c.create(number(key, 2))
		})
		assert.ErrorIs(f, err, storage.ErrRecordExists, name)
	}
	err := f.fails(func(c *call) {
		c.create(number(slot("z"), 1))
		c.create(number(slot("z"), 2))
	})
	assert.ErrorIs(f, err, storage.ErrRecordExists, "Create after Create")
	f.holds(key, `{"n":1}`)
	f.absent(slot("z"))
}

// blindCreateOfWhatIsThere: the collision is found by the commit, and the replay
// tells the callback.
func blindCreateOfWhatIsThere(f *fixture) {
	key := slot("x")
	f.put(number(key, 1))
	var inCallback error
	commit, err := f.try(func(c *call) {
		inCallback = c.tx.Create(c, number(key, 2))
		c.must(inCallback)
	})
	require.ErrorIs(f, err, storage.ErrRecordExists)
	assert.Equal(f, inCallback, err, "the callback's own error comes out")
	assert.Equal(f, 2, commit.Attempts)
	f.holds(key, `{"n":1}`)

	commit = f.transact(func(c *call) {
		if err := c.tx.Create(c, number(key, 2)); err != nil {
			c.want(isExists(err), "Create: %v", err)
			c.add(key, 10)
		}
	})
	assert.Equal(f, 2, commit.Attempts)
	f.holds(key, `{"n":11}`)
}

func writeOfWhatWasNotRead(f *fixture) {
	key := slot("x")
	f.put(number(key, 1))
	assert.ErrorIs(f, f.fails(func(c *call) { c.replace(number(key, 2)) }), storage.ErrRecordNotRead)
	assert.ErrorIs(f, f.fails(func(c *call) { c.delete(key) }), storage.ErrRecordNotRead)
	f.holds(key, `{"n":1}`)
}

func writeOfWhatIsAbsent(f *fixture) {
	key := slot("x")
	for name, see := range map[string]func(c *call){
		"Get":               func(c *call) { c.get(key) },
		"GetMany":           func(c *call) { c.getMany(key) },
		"AssumeAbsent":      func(c *call) { c.assumeAbsent(key) },
		"Create and Delete": func(c *call) { c.create(number(key, 1)); c.delete(key) },
	} {
		err := f.fails(func(c *call) { see(c); c.replace(number(key, 2)) })
		assert.ErrorIs(f, err, storage.ErrRecordNotRead, name)
		err = f.fails(func(c *call) { see(c); c.delete(key) })
		assert.ErrorIs(f, err, storage.ErrRecordNotRead, name)
	}
	f.put(number(key, 1))
	err := f.fails(func(c *call) { c.remove(key); c.delete(key) })
	assert.ErrorIs(f, err, storage.ErrRecordNotRead, "Delete after Delete")
	err = f.fails(func(c *call) { c.remove(key); c.replace(number(key, 2)) })
	assert.ErrorIs(f, err, storage.ErrRecordNotRead, "Replace after Delete")
	f.holds(key, `{"n":1}`)
}

func writeOfAReadOnlyKey(f *fixture) {
	key, absent := slot("x"), slot("y")
	f.put(number(key, 1))
	see := func(c *call) {
		c.get(key, storage.ReadOnly)
		c.get(absent, storage.ReadOnly)
	}
	assert.ErrorIs(f, f.fails(func(c *call) { see(c); c.replace(number(key, 2)) }), storage.ErrReadOnlyKey)
	assert.ErrorIs(f, f.fails(func(c *call) { see(c); c.delete(key) }), storage.ErrReadOnlyKey)
	assert.ErrorIs(f, f.fails(func(c *call) { see(c); c.create(number(absent, 2)) }), storage.ErrReadOnlyKey)
	// The promise holds although the key is read again without it.
	assert.ErrorIs(f, f.fails(func(c *call) { see(c); c.add(key, 1) }), storage.ErrReadOnlyKey)
	f.holds(key, `{"n":1}`)
	f.absent(absent)
}

// aPromiseAfterAWriteDoesNotCount: what the transaction has written already, even if it
// took it back, stays writable whatever is promised now.
func aPromiseAfterAWriteDoesNotCount(f *fixture) {
	present, absent, unread := slot("x"), slot("y"), slot("u")
	f.put(number(present, 1))
	commit := f.transact(func(c *call) {
		c.get(absent)
		c.create(number(absent, 1))
		c.delete(absent)
		c.add(present, 1)
		c.create(number(unread, 1))
		c.append("s", `1`)
		for _, key := range []storage.Key{present, absent, unread, headOf("s")} {
			c.get(key, storage.ReadOnly)
		}
		c.create(number(absent, 2))
		c.replace(number(present, 3))
		c.replace(number(unread, 4))
		c.append("s", `2`)
	})
	assert.Equal(f, 1, commit.Attempts)
	f.holds(absent, `{"n":2}`)
	f.holds(present, `{"n":3}`)
	f.holds(unread, `{"n":4}`)
	f.streamHolds("s", `1`, `2`)
}

func misuseLeavesTheTransactionAsItWas(f *fixture) {
	present, absent, readOnly, unread := slot("x"), slot("y"), slot("r"), slot("u")
	for _, key := range []storage.Key{present, readOnly, unread} {
		f.put(number(key, 1))
	}
	bad := storage.Key{Collection: storage.QueueSlots}
	commit := f.transact(func(c *call) {
		c.add(present, 1)
		c.get(absent)
		c.get(readOnly, storage.ReadOnly)
		expect := func(want, err error) {
			c.want(errors.Is(err, want), "got %v instead of %v", err, want)
		}
		expect(storage.ErrRecordExists, c.tx.Create(c, number(present, 9)))
		expect(storage.ErrRecordNotRead, c.tx.Replace(c, number(unread, 9)))
		expect(storage.ErrRecordNotRead, c.tx.Delete(c, absent))
		expect(storage.ErrReadOnlyKey, c.tx.Delete(c, readOnly))
		expect(storage.ErrInvalidKey, c.tx.Create(c, number(bad, 9)))
		expect(storage.ErrInvalidDocument, c.tx.Replace(c, storage.Record{Key: present, Document: []byte("{")}))
		expect(storage.ErrInvalidKey, c.tx.Wake(""))
		_, _, err := c.tx.Get(c, bad)
		expect(storage.ErrInvalidKey, err)
		_, err = c.tx.Query(c, storage.Query{})
		expect(storage.ErrInvalidQuery, err)
		c.now()
		_, _, err = c.tx.Get(c, slot("new"))
		expect(storage.ErrSealed, err)
		c.want(c.number(present) == 2, "a refused write changed what is staged")
		c.create(number(absent, 1))
	})
	assert.Equal(f, 1, commit.Attempts)
	f.holds(present, `{"n":2}`)
	f.holds(absent, `{"n":1}`)
	f.holds(readOnly, `{"n":1}`)
	f.holds(unread, `{"n":1}`)
}

func nestedTransaction(f *fixture) {
	key := slot("x")
	commit := f.transact(func(c *call) {
		ran := false
		_, err := f.store.Transact(c, "inner", func(contextT, storage.Tx) error {
			ran = true
			return nil
		})
		c.want(errors.Is(err, storage.ErrNestedTransaction), "got %v", err)
		c.want(!ran, "the inner callback ran")
		c.create(number(key, 1))
	})
	assert.Equal(f, 1, commit.Attempts)
	f.holds(key, `{"n":1}`)
}

// nestedUnderAnotherContext: the driver cannot know that one transaction waits for the
// other, so what collides ends as a conflict, and in time.
func nestedUnderAnotherContext(f *fixture) {
	commit := f.transact(func(c *call) {
		_, found := c.get(itemOf("s", 1))
		c.want(!found, "the first item is there")
		c.now()
		_, err := f.store.Transact(f.ctx, "inner", func(ctx contextT, tx storage.Tx) error {
			return tx.Append(ctx, headOf("s"), []byte(`1`))
		})
		c.want(errors.Is(err, storage.ErrConflict), "what the outer transaction holds was written by the inner one: %v", err)
		_, err = f.store.Transact(f.ctx, "inner", func(ctx contextT, tx storage.Tx) error {
			return tx.Create(ctx, number(slot("y"), 1))
		})
		c.want(err == nil, "what has nothing to do with the outer transaction: %v", err)
		c.create(number(slot("x"), 1))
	})
	assert.Equal(f, 1, commit.Attempts)
	f.holds(slot("x"), `{"n":1}`)
	f.holds(slot("y"), `{"n":1}`)
	f.streamHolds("s")
}

func useAfterTheCallback(f *fixture) {
	key := slot("x")
	f.put(number(key, 1))
	for name, end := range map[string]error{"committed": nil, "failed": errors.New("no")} {
		var kept *call
		_, _ = f.try(func(c *call) {
			c.number(key)
			kept = c
			c.must(end)
		})
		c := &call{Context: f.ctx, tx: kept.tx}
		for method, use := range map[string]func() error{
			"Get":          func() error { _, _, err := c.tx.Get(c, key); return err },
			"GetMany":      func() error { _, err := c.tx.GetMany(c, []storage.Key{key}); return err },
			"Peek":         func() error { _, err := c.tx.Peek(c, []storage.Key{key}); return err },
			"Assume":       func() error { _, _, err := c.tx.Assume(c, number(key, 1)); return err },
			"AssumeAbsent": func() error { _, _, err := c.tx.AssumeAbsent(c, key); return err },
			"Query": func() error {
				_, err := c.tx.Query(c, storage.Query{Index: storage.RunsByDue, Partition: partitionOf()})
				return err
			},
			"Now":     func() error { _, err := c.tx.Now(c); return err },
			"Create":  func() error { return c.tx.Create(c, number(slot("y"), 1)) },
			"Replace": func() error { return c.tx.Replace(c, number(key, 2)) },
			"Delete":  func() error { return c.tx.Delete(c, key) },
			"Append":  func() error { return c.tx.Append(c, headOf("s"), []byte(`1`)) },
			"Wake":    func() error { return c.tx.Wake("topic") },
		} {
			assert.ErrorIs(f, use(), storage.ErrClosed, "%s, %s", method, name)
		}
	}
	f.holds(key, `{"n":1}`)
}
