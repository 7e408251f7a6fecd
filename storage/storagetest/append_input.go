package storagetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

var appendInput = topic{"AppendInput", []test{
	{name: "ItemsKeepTheirValue", run: itemsKeepTheirValue},
	{name: "WhatCannotBeStoredIsRefused", run: badItemsAreRefused},
	{name: "EscapesAreNoMarks", run: escapesInItemsAreNoMarks},
	{name: "BadHeadsAreRefused", run: badHeadsAreRefused},
	{name: "ReadOnlyHeadsAreRefused", run: readOnlyHeadsAreRefused},
	{name: "ItemsHaveALimit", run: itemsHaveALimit},
	{name: "KeysHaveALimit", run: appendedKeysHaveALimit},
	{name: "SizeHasALimit", run: itemSizeHasALimit},
	{name: "TheLongestNames", run: theLongestNames},
}}

// itemsKeepTheirValue: every JSON value is an item, and none loses a digit.
func itemsKeepTheirValue(f *fixture) {
	var items []string
	for _, value := range values {
		items = append(items, value, fmt.Sprintf(`{"deep":[{"er":%s}]}`, value))
	}
	for _, document := range unknownHeads() {
		if !strings.Contains(document, storage.CommitTime) {
			items = append(items, document)
		}
	}
	items = append(items, strings.Repeat("[", 510)+strings.Repeat("]", 510))
	f.transact(func(c *call) { c.append("s", items...) })
	f.streamHolds("s", items...)
}

func badItemsAreRefused(f *fixture) {
	f.transact(func(c *call) { c.append("s", `"first"`) })
	for item, field := range map[string]string{
		``: "", ` `: "", `{"a":1`: "", `1 2`: "", `[1,]`: "", `NaN`: "", `01`: "", `{},"injected":1`: "", `1}},{"x":{{"y":1`: "",
		`{"a":"x\u0000y"}`: ".a", `{"\u0000":1}`: "", "\"\x00\"": "", "\"x\ny\"": "",
		"\"\x01\"": "", "{\"a\":[\"\x02\"]}": ".a[0]", "{\"\x01\":1}": "",
		`"\ud83d"`: "", `[1,"\ude00"]`: "[1]", "\"\xff\"": "", "\"\xed\xa0\x80\"": "",
		`1e200000`: "", `{"n":[-1e999999999999]}`: ".n[0]",
		strings.Repeat("[", 511) + strings.Repeat("]", 511): "[0]",
	} {
		commit := f.transact(func(c *call) {
			err := c.tx.Append(c, headOf("s"), rawItems([]string{`"not this"`, item})...)
			var refused *storage.InputError
			c.want(errors.As(err, &refused) && refused.Kind == storage.ErrInvalidDocument, "%q: %v", item, err)
			c.want(refused.Key == headOf("s") && strings.HasPrefix(refused.Field, "items[1]"+field), "%q: the error names %s, %q", item, refused.Key, refused.Field)
			c.append("s", `"this"`)
		})
		assert.Equal(f, 1, commit.Attempts)
		assert.Equal(f, commit.Appended[0].First, commit.Appended[0].Last, "a part of what was refused was appended")
	}
	for _, item := range f.stream("s")[1:] {
		sameJSON(f, `"this"`, item.Data)
	}
}

func escapesInItemsAreNoMarks(f *fixture) {
	items := []string{`"\u0001"`, `{"a":"\u0002","\u0001":["\u0001"]}`, `"x\u0001"`}
	f.transact(func(c *call) { c.append("s", items...) })
	f.streamHolds("s", items...)
}

func badHeadsAreRefused(f *fixture) {
	change := func(edit func(k *storage.Key)) storage.Key {
		k := headOf("s")
		edit(&k)
		return k
	}
	for name, bad := range map[string]struct {
		key  storage.Key
		kind error
	}{
		"zero":                  {storage.Key{}, storage.ErrInvalidKey},
		"no collection":         {change(func(k *storage.Key) { k.Collection = storage.Collection{} }), storage.ErrInvalidKey},
		"the key of an item":    {itemOf("s", 1), storage.ErrInvalidKey},
		"another collection":    {change(func(k *storage.Key) { k.Collection = storage.QueueSlots }), storage.ErrInvalidKey},
		"records":               {change(func(k *storage.Key) { k.Collection = storage.ObservationRecords }), storage.ErrInvalidKey},
		"no partition":          {change(func(k *storage.Key) { k.Partition = "" }), storage.ErrInvalidKey},
		"a partition of two":    {change(func(k *storage.Key) { k.Partition = encode(env, "x") }), storage.ErrInvalidKey},
		"no environment":        {change(func(k *storage.Key) { k.Partition = encode("") }), storage.ErrInvalidKey},
		"no id":                 {change(func(k *storage.Key) { k.ID = "" }), storage.ErrInvalidKey},
		"no stream":             {change(func(k *storage.Key) { k.ID = encode("") }), storage.ErrInvalidKey},
		"a stream and more":     {change(func(k *storage.Key) { k.ID = encode("s", "x") }), storage.ErrInvalidKey},
		"no encoding":           {change(func(k *storage.Key) { k.ID = "s" }), storage.ErrInvalidKey},
		"NUL":                   {change(func(k *storage.Key) { k.ID = "$\x00!" }), storage.ErrInvalidKey},
		"a mark":                {change(func(k *storage.Key) { k.ID = storage.CommitTime }), storage.ErrInvalidKey},
		"invalid UTF-8":         {change(func(k *storage.Key) { k.ID = "$\xff!" }), storage.ErrInvalidKey},
		"a stream that is long": {change(func(k *storage.Key) { k.ID = encode(strings.Repeat("x", 256)) }), storage.ErrInvalidKey},
		"an id that is long":    {change(func(k *storage.Key) { k.ID = encode(strings.Repeat("x", 2000)) }), storage.ErrTooLarge},
	} {
		commit := f.transact(func(c *call) {
			err := c.tx.Append(c, bad.key, rawItems([]string{`1`})...)
			c.want(isRefused(err, bad.kind), "%s: %v", name, err)
			c.append("s", `1`)
		})
		assert.Equal(f, 1, commit.Attempts)
		assert.Len(f, commit.Appended, 1, name)
	}
}

// readOnlyHeadsAreRefused: an append writes the head.
func readOnlyHeadsAreRefused(f *fixture) {
	f.transact(func(c *call) { c.append("present", `1`) })
	for _, stream := range []string{"present", "absent"} {
		err := f.fails(func(c *call) {
			c.get(headOf(stream), storage.ReadOnly)
			c.append(stream, `2`)
		})
		assert.ErrorIs(f, err, storage.ErrReadOnlyKey)
		// The promise holds although the head is read again without it, and the
		// transaction is as it was before.
		commit := f.transact(func(c *call) {
			c.get(headOf(stream), storage.ReadOnly)
			c.get(headOf(stream))
			err := c.tx.Append(c, headOf(stream), rawItems([]string{`2`})...)
			c.want(errors.Is(err, storage.ErrReadOnlyKey), "Append: %v", err)
			c.append("other", `1`)
		})
		assert.Equal(f, 1, commit.Attempts)
		assert.Len(f, commit.Appended, 1)
	}
	f.streamHolds("present", `1`)
	f.streamHolds("absent")
	f.streamHolds("other", `1`, `1`)
	// A promise that comes after the append is none.
	commit := f.transact(func(c *call) {
		c.append("present", `2`)
		c.get(headOf("present"), storage.ReadOnly)
	})
	assert.Equal(f, 1, commit.Attempts)
	f.streamHolds("present", `1`, `2`)
}

func itemsHaveALimit(f *fixture) {
	limits := storage.DefaultLimits()
	items := func(n int) []string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprint(i))
		}
		return all
	}
	tooMany := func(c *call, stream string, n int) {
		err := c.tx.Append(c, headOf(stream), rawItems(items(n))...)
		c.want(isRefused(err, storage.ErrTooMany), "%d items: %v", n, err)
	}
	commit := f.transact(func(c *call) {
		tooMany(c, "a", limits.MaxItems+1)
		c.append("a", items(limits.MaxItems-1)...)
		tooMany(c, "a", 2)
		tooMany(c, "b", 2) // all streams together
		c.append("b", `"the last"`)
		tooMany(c, "b", 1)
		c.append("b")
	})
	assert.Equal(f, []storage.Appended{
		{Head: headOf("a"), First: 1, Last: int64(limits.MaxItems - 1)}, {Head: headOf("b"), First: 1, Last: 1},
	}, commit.Appended)
	f.streamHolds("a", items(limits.MaxItems-1)...)
	f.streamHolds("b", `"the last"`)
}

// appendedKeysHaveALimit: heads and items are keys that a transaction locks. Where it
// is refused, by a method or by the commit, is the driver's choice.
func appendedKeysHaveALimit(f *fixture) {
	limits := storage.DefaultLimits()
	body := func(creates int) func(c *call) {
		return func(c *call) {
			for i := range creates {
				c.create(number(slot(fmt.Sprint(i)), i))
			}
			var items []string
			for i := range limits.MaxItems {
				items = append(items, fmt.Sprint(i))
			}
			c.append("s", items...)
		}
	}
	fits := limits.MaxKeys - limits.MaxItems - 1
	err := f.fails(body(fits + 1))
	assert.True(f, isRefused(err, storage.ErrTooMany), "%v", err)
	f.absent(slot("0"))
	f.absent(headOf("s"))
	commit := f.transact(body(fits))
	assert.Len(f, commit.Versions, fits)
	assert.Equal(f, []storage.Appended{{Head: headOf("s"), First: 1, Last: int64(limits.MaxItems)}}, commit.Appended)
}

// itemSizeHasALimit: what may be appended may be read and written again.
func itemSizeHasALimit(f *fixture) {
	limits := storage.DefaultLimits()
	const envelope = 4 << 10
	text := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }
	largest := text(limits.MaxDocument - envelope)
	f.transact(func(c *call) {
		err := c.tx.Append(c, headOf("s"), text(limits.MaxDocument-envelope+1))
		c.want(isRefused(err, storage.ErrTooLarge), "%v", err)
		c.must(c.tx.Append(c, headOf("s"), largest))
	})
	f.transact(func(c *call) {
		rec, found := c.get(itemOf("s", 1))
		c.want(found, "the item is absent")
		c.replace(storage.Record{Key: rec.Key, Document: rec.Document})
	})
	rec := f.read(itemOf("s", 1))
	items, err := decodeItems("s", 1, []storage.Record{*rec})
	require.NoError(f, err)
	require.Equal(f, string(largest), string(items[0].Data))

	_, err = f.try(func(c *call) {
		free := limits.MaxTransaction
		for ; free >= len(largest); free -= len(largest) {
			c.must(c.tx.Append(c, headOf("t"), largest))
		}
		err := c.tx.Append(c, headOf("t"), largest)
		c.want(isRefused(err, storage.ErrTooLarge), "%v", err)
		c.must(c.tx.Append(c, headOf("u"), text(free)))
		err = c.tx.Append(c, headOf("u"), json.RawMessage(`1`))
		c.want(isRefused(err, storage.ErrTooLarge), "one byte more: %v", err)
		err = c.tx.Create(c, number(slot("x"), 1))
		c.want(isRefused(err, storage.ErrTooLarge), "a document besides: %v", err)
		c.stop(errStop)
	})
	require.True(f, err == errStop, "got %v", err)
}

// theLongestNames: whatever is the name of a stream may be appended to.
func theLongestNames(f *fixture) {
	for _, name := range []string{strings.Repeat("x", 255), strings.Repeat("é", 127), strings.Repeat(`"`, 255), strings.Repeat("\\", 255), strings.Repeat("\x01", 160)} {
		commit := f.transact(func(c *call) { c.append(name, `1`) })
		assert.Equal(f, 1, commit.Attempts)
		f.transact(func(c *call) { c.append(name, `2`) })
		f.streamHolds(name, `1`, `2`)
	}
}
