package storagetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

var input = topic{"Input", []test{
	{name: "BadKeysAreRefused", run: badKeysAreRefused},
	{name: "LongKeysFitUpToTheLimit", run: longKeysFitUpToTheLimit},
	{name: "BadEntriesAreRefused", run: badEntriesAreRefused},
	{name: "BadQueriesAreRefused", run: badQueriesAreRefused},
	{name: "BadTopicsAreRefused", run: badTopicsAreRefused},
	{name: "HostileTextIsOnlyText", run: hostileTextIsOnlyText},
	{name: "MutationsHaveALimit", run: mutationsHaveALimit},
	{name: "KeysHaveALimit", run: keysHaveALimit},
}}

// errStop is the error of callbacks that want nothing stored.
var errStop = errors.New("storagetest: stop")

// isRefused reports whether input was refused for that reason, with its details.
func isRefused(err, kind error) bool {
	var refused *storage.InputError
	return errors.Is(err, kind) && errors.As(err, &refused) && refused.Kind == kind
}

func badKeysAreRefused(f *fixture) {
	good := slot("x")
	change := func(edit func(k *storage.Key)) storage.Key {
		k := good
		edit(&k)
		return k
	}
	long := encode(strings.Repeat("x", storage.DefaultLimits().MaxKeyPart))
	for name, bad := range map[string]struct {
		key  storage.Key
		kind error
	}{
		"zero":                      {storage.Key{}, storage.ErrInvalidKey},
		"no collection":             {change(func(k *storage.Key) { k.Collection = storage.Collection{} }), storage.ErrInvalidKey},
		"no partition":              {change(func(k *storage.Key) { k.Partition = "" }), storage.ErrInvalidKey},
		"no id":                     {change(func(k *storage.Key) { k.ID = "" }), storage.ErrInvalidKey},
		"NUL":                       {change(func(k *storage.Key) { k.ID = "$a\x00!" }), storage.ErrInvalidKey},
		"a mark":                    {change(func(k *storage.Key) { k.ID = storage.CommitTime }), storage.ErrInvalidKey},
		"a control character":       {change(func(k *storage.Key) { k.Partition = "$a\n!" }), storage.ErrInvalidKey},
		"invalid UTF-8":             {change(func(k *storage.Key) { k.ID = "$\xff!" }), storage.ErrInvalidKey},
		"invalid UTF-8 (partition)": {change(func(k *storage.Key) { k.Partition = "$\xff!" }), storage.ErrInvalidKey},
		"a long id":                 {change(func(k *storage.Key) { k.ID = long }), storage.ErrTooLarge},
		"a long partition":          {change(func(k *storage.Key) { k.Partition = long }), storage.ErrTooLarge},
	} {
		commit := f.transact(func(c *call) {
			_, _, get := c.tx.Get(c, bad.key)
			_, getMany := c.tx.GetMany(c, []storage.Key{good, bad.key})
			_, peek := c.tx.Peek(c, []storage.Key{good, bad.key})
			_, _, assume := c.tx.Assume(c, storage.Record{Key: bad.key, Version: storage.MakeVersion(1), Document: []byte(`{}`)})
			_, _, absent := c.tx.AssumeAbsent(c, bad.key)
			for method, err := range map[string]error{
				"Get": get, "GetMany": getMany, "Peek": peek, "Assume": assume, "AssumeAbsent": absent,
				"Create": c.tx.Create(c, number(bad.key, 1)), "Replace": c.tx.Replace(c, number(bad.key, 1)), "Delete": c.tx.Delete(c, bad.key),
			} {
				c.want(isRefused(err, bad.kind), "%s, %s: %v", method, name, err)
			}
		})
		assert.Equal(f, 1, commit.Attempts)
	}
}

func longKeysFitUpToTheLimit(f *fixture) {
	limits := storage.DefaultLimits()
	// Partition, sort value and id that together are as long as they may be.
	part := func(size int, fill string) string {
		text := strings.Repeat(fill, (size-2)/len(fill))
		return encode(text + strings.Repeat("x", size-2-len(text)))
	}
	for i, fill := range []string{"x", "ä", "😀"} {
		partition := part(limits.MaxKeyPart, fill)
		id := part(limits.MaxKeyPart, fill)
		sort := part(limits.MaxKeyTotal-2*limits.MaxKeyPart, fill)
		rec := number(storage.Key{Collection: storage.Runs, Partition: partition, ID: id}, i)
		rec.Entries = []storage.Entry{{Index: storage.RunsByDue, Partition: partition, Sort: sort}}
		f.put(rec)
		require.NotNil(f, f.read(rec.Key))
		q := storage.Query{Index: storage.RunsByDue, Partition: partition, Limit: 1}
		require.Len(f, f.page(q), 1)
		require.Len(f, f.walk(q), 1, "a resume point of the longest size")

		rec.Key.ID = part(limits.MaxKeyPart-1, fill)
		rec.Entries[0].Sort = part(limits.MaxKeyTotal-2*limits.MaxKeyPart+2, fill)
		err := f.fails(func(c *call) { c.create(rec) })
		assert.True(f, isRefused(err, storage.ErrTooLarge), "%v", err)
	}
}

func badEntriesAreRefused(f *fixture) {
	key := keyOf(storage.Runs, "x")
	good := entry(storage.RunsByDue, encode("s"), "p")
	change := func(edit func(e *storage.Entry)) []storage.Entry {
		e := good
		edit(&e)
		return []storage.Entry{e}
	}
	long := encode(strings.Repeat("x", storage.DefaultLimits().MaxKeyPart))
	for name, bad := range map[string]struct {
		entries []storage.Entry
		kind    error
	}{
		"no index":                {change(func(e *storage.Entry) { e.Index = storage.Index{} }), storage.ErrInvalidKey},
		"another collection":      {change(func(e *storage.Entry) { e.Index = storage.QueueSlotsByExpiry }), storage.ErrInvalidKey},
		"no sort value":           {change(func(e *storage.Entry) { e.Sort = "" }), storage.ErrInvalidKey},
		"no partition":            {change(func(e *storage.Entry) { e.Partition = "" }), storage.ErrInvalidKey},
		"another environment":     {change(func(e *storage.Entry) { e.Partition = encode("other") }), storage.ErrInvalidKey},
		"a mark in the partition": {change(func(e *storage.Entry) { e.Partition += storage.CommitTime }), storage.ErrInvalidKey},
		"NUL":                     {change(func(e *storage.Entry) { e.Sort = "$\x00!" }), storage.ErrInvalidKey},
		"invalid UTF-8":           {change(func(e *storage.Entry) { e.Sort = "$\xff!" }), storage.ErrInvalidKey},
		"a long sort value":       {change(func(e *storage.Entry) { e.Sort = long }), storage.ErrTooLarge},
		"a long partition":        {change(func(e *storage.Entry) { e.Partition += long }), storage.ErrTooLarge},
		"one index twice":         {[]storage.Entry{good, entry(storage.RunsByDue, encode("t"), "p")}, storage.ErrInvalidKey},
	} {
		rec := number(key, 1)
		rec.Entries = bad.entries
		err := f.fails(func(c *call) { c.create(rec) })
		assert.True(f, isRefused(err, bad.kind), "%s: %v", name, err)
	}
	f.absent(key)
}

func badQueriesAreRefused(f *fixture) {
	limits := storage.DefaultLimits()
	good := storage.Query{Index: storage.RunsByDue, Partition: partitionOf()}
	for name, edit := range map[string]func(q *storage.Query){
		"no index":           func(q *storage.Query) { q.Index = storage.Index{} },
		"no partition":       func(q *storage.Query) { q.Partition = "" },
		"a bad partition":    func(q *storage.Query) { q.Partition = "$\xff!" },
		"NUL":                func(q *storage.Query) { q.From = storage.At("$\x00!") },
		"a mark":             func(q *storage.Query) { q.Until = storage.At(storage.CommitTime) },
		"a negative limit":   func(q *storage.Query) { q.Limit = -1 },
		"a limit too high":   func(q *storage.Query) { q.Limit = limits.MaxPage + 1 },
		"a direction":        func(q *storage.Query) { q.Direction = 2 },
		"a lock":             func(q *storage.Query) { q.Lock = 2 },
		"half a resume":      func(q *storage.Query) { q.Resume.Sort = encode("s") },
		"the other half":     func(q *storage.Query) { q.Resume.ID = encode("s") },
		"a bad resume point": func(q *storage.Query) { q.Resume = storage.Resume{Sort: "\xff", ID: "\xff"} },
	} {
		q := good
		edit(&q)
		commit := f.transact(func(c *call) {
			_, err := c.tx.Query(c, q)
			c.want(isRefused(err, storage.ErrInvalidQuery), "%s: %v", name, err)
			q.Lock = storage.Exclusive
			if name != "a lock" {
				_, err = c.tx.Query(c, q)
				c.want(isRefused(err, storage.ErrInvalidQuery), "%s, exclusive: %v", name, err)
			}
			c.query(good)
		})
		assert.Equal(f, 1, commit.Attempts)
	}
}

func badTopicsAreRefused(f *fixture) {
	limits := storage.DefaultLimits()
	f.transact(func(c *call) {
		for topic, kind := range map[string]error{
			"": storage.ErrInvalidKey, "a\x00b": storage.ErrInvalidKey, "\xff": storage.ErrInvalidKey,
			strings.Repeat("x", limits.MaxTopic+1):       storage.ErrTooLarge,
			strings.Repeat("ä", limits.MaxTopic/2) + "x": storage.ErrTooLarge,
		} {
			err := c.tx.Wake(topic)
			c.want(isRefused(err, kind), "%q: %v", topic, err)
		}
		for i := range limits.MaxTopics {
			topic := fmt.Sprintf("%03d", i)
			c.wake(topic + strings.Repeat("x", limits.MaxTopic-len(topic)))
		}
		err := c.tx.Wake("one more")
		c.want(isRefused(err, storage.ErrTooMany), "%v", err)
		c.wake("000" + strings.Repeat("x", limits.MaxTopic-3)) // not one more
	})
}

func hostileTextIsOnlyText(f *fixture) {
	texts := []string{
		"$1", "$$", "'; -- ", `a"b`, `%_\`, "{}", "{a,b}", "NULL", "null", "\\x00", "e'\\n'", "a'b", "/*", "?", ":name", "@p",
		"\t", "\x7f", "\u2028", "\ufeff", " ", "ÄÖÜ", "😀", "é", "e\u0301",
	}
	var records []storage.Record
	for i, text := range texts {
		rec := storage.Record{
			Key:      storage.Key{Collection: storage.Runs, Partition: encode(text), ID: encode(text, text)},
			Document: []byte(fmt.Sprintf(`{"n":%d}`, i)),
			Entries:  []storage.Entry{{Index: storage.RunsByDue, Partition: encode(text, text), Sort: encode(text)}},
		}
		records = append(records, rec)
	}
	f.putAll(records)
	f.keepsAll(records)
	for i, rec := range records {
		e := rec.Entries[0]
		for _, lock := range []storage.Lock{storage.Candidates, storage.Exclusive} {
			page := f.page(storage.Query{Index: e.Index, Partition: e.Partition, From: storage.At(e.Sort), Until: storage.At(e.Sort + "\x7f"), Lock: lock})
			require.Len(f, page, 1, "%q", texts[i])
			require.Equal(f, i, numberIn(page[0]))
		}
	}
	f.transact(func(c *call) {
		for _, rec := range records {
			c.remove(rec.Key)
			c.wake(texts[0])
		}
	})
}

func mutationsHaveALimit(f *fixture) {
	limits := storage.DefaultLimits()
	commit := f.transact(func(c *call) {
		for i := range limits.MaxMutations {
			c.create(number(slot(fmt.Sprint(i)), i))
		}
		err := c.tx.Create(c, number(slot("one more"), 1))
		c.want(isRefused(err, storage.ErrTooMany), "%v", err)
		c.replace(number(slot("0"), 100)) // not one more
	})
	assert.Len(f, commit.Versions, limits.MaxMutations)
	f.holds(slot("0"), `{"n":100}`)
	f.absent(slot("one more"))
}

func keysHaveALimit(f *fixture) {
	limits := storage.DefaultLimits()
	var keys []storage.Key
	for i := range limits.MaxKeys + 1 {
		keys = append(keys, slot(fmt.Sprint(i)))
	}
	commit := f.transact(func(c *call) {
		_, err := c.tx.GetMany(c, keys)
		c.want(isRefused(err, storage.ErrTooMany), "%v", err)
		c.getMany(keys[1:]...)
		_, _, err = c.tx.Get(c, keys[0])
		c.want(isRefused(err, storage.ErrTooMany), "one more: %v", err)
		c.getMany(keys[1:]...) // not one more
		c.create(number(keys[1], 1))
	})
	assert.Len(f, commit.Versions, 1)
}
