package storagetest

import (
	"fmt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

var pointReads = topic{"PointReads", []test{
	{name: "AbsentIsNotFound", run: absentIsNotFound},
	{name: "EveryCollectionKeepsARecord", run: everyCollectionKeepsARecord},
	{name: "KeysAreApart", run: keysAreApart},
	{name: "GetManyMixesCollections", run: getManyMixesCollections},
	{name: "ReadsSeeStagedWrites", run: readsSeeStagedWrites},
	{name: "ReadsAreRepeatable", run: readsAreRepeatable},
	{name: "EveryWriteHasItsVersion", run: everyWriteHasItsVersion},
	{name: "PeekSeesWhatIsCommitted", run: peekSeesWhatIsCommitted},
	{name: "PeekIsNoDependency", run: peekIsNoDependency},
	{name: "ReadOnlyReads", run: readOnlyReads},
}}

func absentIsNotFound(f *fixture) {
	for _, collection := range storage.Collections() {
		key := keyOf(collection, "nothing")
		commit := f.transact(func(c *call) {
			rec, found := c.get(key)
			c.want(!found, "found %s", key)
			c.want(rec.Key.IsZero() && rec.Version.IsZero() && rec.Document == nil, "an absent record is %v", rec)
			c.want(len(c.getMany(key)) == 0, "GetMany found %s", key)
			c.want(len(c.peek(key)) == 0, "Peek found %s", key)
		})
		assert.Equal(f, 1, commit.Attempts)
	}
}

func everyCollectionKeepsARecord(f *fixture) {
	for i, collection := range storage.Collections() {
		key := keyOf(collection, "some", "id")
		doc := fmt.Sprintf(`{"of":%q,"n":%d}`, collection, i)
		rec := storage.Record{Key: key, Document: []byte(doc)}
		for j, ix := range storage.IndexesOn(collection) {
			rec.Entries = append(rec.Entries, entry(ix, encode(fmt.Sprint(j)), "p"))
		}
		version := f.put(rec).Version
		require.False(f, version.IsZero(), "%s: no version", collection)

		got := f.read(key)
		require.NotNil(f, got, "%s", collection)
		assert.Equal(f, key, got.Key)
		assert.Equal(f, version, got.Version)
		assert.Empty(f, got.Entries, "entries never come out")
		sameJSON(f, doc, got.Document)
	}
}

func keysAreApart(f *fixture) {
	// Pairs that a careless encoding of keys would take for one.
	var records []storage.Record
	for _, collection := range []storage.Collection{storage.QueueSlots, storage.IdempotencyOwners, storage.Runs, storage.RunEvents} {
		for _, partition := range []string{encode("a"), encode("a", "b"), encode("ab"), encode("A")} {
			for _, id := range []string{encode("b"), encode("b", "c"), encode("bc"), encode(""), encode("b "), encode("B")} {
				key := storage.Key{Collection: collection, Partition: partition, ID: id}
				records = append(records, number(key, len(records)))
			}
		}
	}
	f.transact(func(c *call) {
		for _, rec := range records {
			c.create(rec)
		}
	})
	f.transact(func(c *call) {
		for i, rec := range records {
			c.want(c.number(rec.Key) == i, "%s holds another record's document", rec.Key)
		}
	})
}

func getManyMixesCollections(f *fixture) {
	here, there, gone := slot("here"), keyOf(storage.SingletonOwners, "there"), keyOf(storage.RunEvents, "gone")
	f.put(number(here, 1))
	f.put(number(there, 2))
	f.transact(func(c *call) {
		found := c.getMany(here, gone, there, here)
		c.want(len(found) == 2, "found %d records", len(found))
		c.want(numberIn(found[here]) == 1 && numberIn(found[there]) == 2, "found %v", found)
		c.want(found[here].Key == here, "the record says it is %s", found[here].Key)
		c.want(len(c.getMany()) == 0, "GetMany of nothing found something")
	})
}

func readsSeeStagedWrites(f *fixture) {
	created, replaced, deleted := slot("created"), slot("replaced"), slot("deleted")
	f.put(number(replaced, 1))
	f.put(number(deleted, 1))
	f.transact(func(c *call) {
		c.create(number(created, 2))
		c.want(c.number(created) == 2, "a staged Create is not seen")
		c.add(replaced, 1)
		c.want(c.number(replaced) == 2, "a staged Replace is not seen")
		c.remove(deleted)
		_, found := c.get(deleted)
		c.want(!found, "a staged Delete is not seen")

		found2 := c.getMany(created, replaced, deleted)
		c.want(len(found2) == 2 && numberIn(found2[created]) == 2 && numberIn(found2[replaced]) == 2, "GetMany sees %v", found2)
		rec, found := c.assume(storage.Record{Key: replaced, Version: storage.MakeVersion(1), Document: []byte(`{}`)})
		c.want(found && numberIn(rec) == 2, "Assume does not see a staged Replace")
		_, found = c.assumeAbsent(created)
		c.want(found, "AssumeAbsent does not see a staged Create")
	})
	f.holds(created, `{"n":2}`)
	f.holds(replaced, `{"n":2}`)
	f.absent(deleted)
}

func readsAreRepeatable(f *fixture) {
	key, absent := slot("x"), slot("y")
	f.put(number(key, 1))
	f.transact(func(c *call) {
		if c.attempt > 1 {
			return
		}
		before := c.number(key)
		_, found := c.get(absent)
		c.want(!found, "y is present")
		f.aside(func(c *call) {
			c.add(key, 10)
			c.create(number(absent, 1))
		})
		c.want(c.number(key) == before, "a second read sees another state")
		_, found = c.get(absent)
		c.want(!found, "an absence that was read is forgotten")
		c.want(numberIn(c.getMany(key, absent)[key]) == before, "GetMany does not use what Get read")
	})
}

func everyWriteHasItsVersion(f *fixture) {
	key := slot("x")
	seen := map[storage.Version]bool{}
	note := func(commit storage.Commit) {
		f.Helper()
		version := commit.Versions[key]
		require.False(f, version.IsZero(), "the commit reports no version")
		require.False(f, seen[version], "a version occurs twice")
		seen[version] = true
		require.Equal(f, version, f.read(key).Version)
	}
	note(f.transact(func(c *call) { c.create(number(key, 1)) }))
	note(f.transact(func(c *call) { c.add(key, 1) }))
	// The same document is another version all the same.
	note(f.transact(func(c *call) { c.add(key, 0) }))
	gone := f.transact(func(c *call) { c.remove(key) })
	require.Empty(f, gone.Versions, "a Delete has no version")
	note(f.transact(func(c *call) { c.create(number(key, 1)) }))
	note(f.transact(func(c *call) {
		c.remove(key)
		c.create(number(key, 1))
	}))
}

func peekSeesWhatIsCommitted(f *fixture) {
	key, staged := slot("x"), slot("y")
	f.put(number(key, 1))
	f.transact(func(c *call) {
		if c.attempt > 1 {
			return
		}
		c.number(key)
		c.create(number(staged, 1))
		f.aside(func(c *call) { c.add(key, 1) })
		found := c.peek(key, staged, key)
		c.want(len(found) == 1, "Peek sees staged writes: %v", found)
		c.want(numberIn(found[key]) == 2, "Peek does not see the newest state")
		c.want(c.number(key) == 1, "Peek changed what Get returns")
	})
}

func peekIsNoDependency(f *fixture) {
	peeked, absent, written := slot("x"), slot("y"), slot("z")
	f.put(number(peeked, 1))
	commit := f.transact(func(c *call) {
		c.peek(peeked, absent)
		f.aside(func(c *call) {
			c.put(number(peeked, 2))
			c.put(number(absent, 1))
		})
		c.create(number(written, 1))
	})
	assert.Equal(f, 1, commit.Attempts, "what was peeked at became a dependency")

	err := f.fails(func(c *call) {
		c.peek(peeked)
		c.replace(number(peeked, 3))
	})
	require.ErrorIs(f, err, storage.ErrRecordNotRead, "Peek is no read to write by")
}

func readOnlyReads(f *fixture) {
	key, absent, written := slot("x"), slot("y"), slot("z")
	f.put(number(key, 1))
	commit := f.transact(func(c *call) {
		c.want(c.number(key, storage.ReadOnly) == 1, "a read-only read returns something else")
		_, found := c.get(absent, storage.ReadOnly)
		c.want(!found, "y is present")
		found2, err := c.tx.GetMany(c, []storage.Key{key, absent}, storage.ReadOnly)
		c.must(err)
		c.want(len(found2) == 1, "GetMany found %v", found2)
		c.create(number(written, 1))
	})
	assert.Equal(f, 1, commit.Attempts)
}
