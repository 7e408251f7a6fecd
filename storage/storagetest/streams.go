package storagetest

import (
	"fmt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
)

// headOf names the head of a stream of the environment env.
func headOf(stream string) storage.Key { return headIn(env, stream) }

func headIn(environment, stream string) storage.Key {
	key, err := codec.ObservationHeadKey(environment, stream)
	if err != nil {
		panic(err)
	}
	return key
}

// itemOf names the record of one item.
func itemOf(stream string, position int64) storage.Key {
	key, err := codec.ObservationKey(env, stream, position)
	if err != nil {
		panic(err)
	}
	return key
}

// headAt is the head of a stream that has come so far.
func headAt(stream string, position int64) storage.Record {
	rec, err := codec.EncodeObservationHead(codec.ObservationHead{Environment: env, Stream: stream, Position: position})
	if err != nil {
		panic(err)
	}
	return rec
}

// itemAt is an item as somebody would write it by hand.
func itemAt(stream string, position int64, data string) storage.Record {
	rec, err := codec.EncodeObservation(codec.Observation{Environment: env, Stream: stream, Position: position, At: epoch, Data: []byte(data)})
	if err != nil {
		panic(err)
	}
	return rec
}

// positionIn is the position that a head holds.
func positionIn(rec storage.Record) int64 {
	h, kind := codec.DecodeObservationHead(rec)
	if kind != codec.Canonical {
		panic(fmt.Sprintf("the head %s is not one of ours", rec.Document))
	}
	return h.Position
}

// streamQuery reads a stream from its beginning.
func streamQuery(stream string) storage.Query {
	partition, err := codec.ObservationsPartition(env, stream)
	if err != nil {
		panic(err)
	}
	return storage.Query{Index: storage.ObservationsByPosition, Partition: partition, Limit: 500}
}

// behind is the part of a stream behind a position.
func behind(stream string, position int64) storage.Query {
	q := streamQuery(stream)
	q.From = storage.At(keys.EncodeInt(position + 1))
	return q
}

// decodeItems decodes a page and requires that its positions follow one another,
// beginning at first, and that its times do not fall.
func decodeItems(stream string, first int64, records []storage.Record) ([]codec.Observation, error) {
	var all []codec.Observation
	for i, rec := range records {
		o, kind := codec.DecodeObservation(rec)
		switch {
		case kind != codec.Canonical:
			return nil, fmt.Errorf("the record %s holds %s, which is %s", rec.Key, rec.Document, kind)
		case o.Environment != env || o.Stream != stream || rec.Key != itemOf(stream, o.Position):
			return nil, fmt.Errorf("the record %s says it is %+v", rec.Key, o)
		case o.Position != first+int64(i):
			return nil, fmt.Errorf("position %d of %q follows %d", o.Position, stream, first+int64(i)-1)
		case i > 0 && o.At.Before(all[i-1].At):
			return nil, fmt.Errorf("the time of %q falls from %s to %s at position %d", stream, all[i-1].At, o.At, o.Position)
		}
		all = append(all, o)
	}
	return all, nil
}

// stream reads a stream by its index, and requires that its head, its keys and both
// directions say the same.
func (f *fixture) stream(stream string) []codec.Observation {
	f.Helper()
	return f.streamBehind(stream, 0)
}

// streamBehind is stream for one whose first positions are gone.
func (f *fixture) streamBehind(stream string, gone int64) []codec.Observation {
	f.Helper()
	q := streamQuery(stream)
	q.Limit = 7
	records := f.walk(q)
	items, err := decodeItems(stream, gone+1, records)
	require.NoError(f, err)

	q.Direction = storage.Descending
	down := f.walk(q)
	require.Len(f, down, len(records))
	wanted := []storage.Key{headOf(stream), itemOf(stream, gone+int64(len(items))+1)}
	for i, rec := range records {
		require.Equal(f, rec, down[len(down)-1-i], "the same record, descending")
		wanted = append(wanted, rec.Key)
	}
	f.transact(func(c *call) {
		found := c.getMany(wanted...)
		last := int64(0)
		if head, ok := found[headOf(stream)]; ok {
			last = positionIn(head)
		}
		c.want(last == gone+int64(len(items)), "the head of %q is at %d, the last item at %d", stream, last, gone+int64(len(items)))
		for _, rec := range records {
			c.want(found[rec.Key].Version == rec.Version && string(found[rec.Key].Document) == string(rec.Document), "%s reads as %s, and in the index as %s", rec.Key, found[rec.Key].Document, rec.Document)
		}
		_, more := found[wanted[1]]
		c.want(!more, "there is a record behind the end of %q", stream)
	})
	return items
}

// streamHolds requires that a stream holds exactly these items.
func (f *fixture) streamHolds(stream string, items ...string) {
	f.Helper()
	got := f.stream(stream)
	if !assert.Len(f, got, len(items), "stream %q", stream) {
		return
	}
	for i, item := range items {
		sameJSON(f, item, got[i].Data)
	}
}
