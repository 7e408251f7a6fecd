package storagetest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/keys"
)

var commitTimes = topic{"CommitTimes", []test{
	{name: "FillDocuments", run: commitTimesFillDocuments},
	{name: "FillEveryCollection", run: commitTimesFillEveryCollection},
	{name: "FillSortValues", run: commitTimesFillSortValues},
	{name: "AreOneForTheTransaction", run: commitTimesAreOneForTheTransaction},
	{name: "EscapesAreNoMarks", run: escapesAreNoMarks},
	{name: "LaterHasBounds", run: laterHasBounds},
}}

func inDocument(t time.Time) string { return t.Format(storage.TimeFormat) }

func commitTimesFillDocuments(f *fixture) {
	const document = "{\"a\":\"\x01\",\"b\":[\"\x02\",{\"c\":\"\x01\"}],\"d\":\"x\",\"e\":\"\x02\"}"
	key := slot("x")
	later := 90*time.Minute + 7*time.Microsecond
	check := func(commit storage.Commit) {
		f.Helper()
		require.True(f, isClean(commit.Time))
		now, then := inDocument(commit.Time), inDocument(commit.Time.Add(later))
		f.holds(key, fmt.Sprintf(`{"a":%q,"b":[%q,{"c":%q}],"d":"x","e":%q}`, now, then, now, then))
	}
	rec := storage.Record{Key: key, Document: []byte(document), Later: later}
	check(f.transact(func(c *call) { c.create(rec) }))
	check(f.transact(func(c *call) { c.put(rec) }))

	whole := storage.Record{Key: slot("whole"), Document: []byte("\"\x01\"")}
	commit := f.transact(func(c *call) { c.create(whole) })
	f.holds(whole.Key, fmt.Sprintf("%q", inDocument(commit.Time)))
}

// commitTimesFillEveryCollection includes documents whose parts a driver may keep apart.
func commitTimesFillEveryCollection(f *fixture) {
	for i, document := range []string{
		"{\"at\":\"\x01\"}",
		"{\"codec\":\"run\",\"v\":1,\"value\":{\"payload\":{\"at\":\"\x01\",\"later\":\"\x02\"}}}",
		"{\"codec\":\"run\",\"v\":1,\"value\":{\"payload\":\"\x02\"}}",
		"{\"codec\":\"event\",\"v\":1,\"value\":{\"event\":{\"payload\":[\"\x01\"]}}}",
	} {
		for _, collection := range storage.Collections() {
			key := keyOf(collection, fmt.Sprint(i))
			commit := f.transact(func(c *call) {
				c.create(storage.Record{Key: key, Document: json.RawMessage(document), Later: time.Second})
			})
			want := replaceMarks(document, commit.Time, time.Second)
			f.holds(key, want)
		}
	}
}

func replaceMarks(document string, commit time.Time, later time.Duration) string {
	var out []byte
	for _, b := range []byte(document) {
		switch b {
		case storage.CommitTime[0]:
			out = append(out, inDocument(commit)...)
		case storage.CommitTimeLater[0]:
			out = append(out, inDocument(commit.Add(later))...)
		default:
			out = append(out, b)
		}
	}
	return string(out)
}

func commitTimesFillSortValues(f *fixture) {
	text := func(t keys.Tuple) string {
		s, err := t.Text()
		require.NoError(f, err)
		return s
	}
	sorts := []keys.Tuple{
		keys.New().CommitTime(),
		keys.New().CommitTimeLater(),
		keys.New().String("a").CommitTime().Int(7),
		keys.New().CommitTimeLater().String("z").CommitTime(),
	}
	filled := func(i int, at, later time.Time) string {
		return text([]keys.Tuple{
			keys.New().Time(at),
			keys.New().Time(later),
			keys.New().String("a").Time(at).Int(7),
			keys.New().Time(later).String("z").Time(at),
		}[i])
	}
	for i, sort := range sorts {
		rec := indexed(fmt.Sprint(i), i, entry(storage.RunsByDue, text(sort), fmt.Sprint(i)))
		rec.Later = 3 * time.Hour
		for _, write := range []func(c *call, rec storage.Record){(*call).create, (*call).put} {
			commit := f.transact(func(c *call) { write(c, rec) })
			sort := filled(i, commit.Time, commit.Time.Add(rec.Later))
			q := storage.Query{
				Index: storage.RunsByDue, Partition: partitionOf(fmt.Sprint(i)), Limit: 1,
				From: storage.At(sort), Until: storage.At(sort + "\x7f"),
			}
			var page storage.Page
			f.transact(func(c *call) { page = c.query(q) })
			require.Len(f, page.Records, 1, "the entry is not at %s", sort)
			if !page.Resume.IsZero() {
				assert.Equal(f, storage.Resume{Sort: sort, ID: rec.Key.ID}, page.Resume)
			}
		}
	}
}

func commitTimesAreOneForTheTransaction(f *fixture) {
	var keys []storage.Key
	f.put(number(slot("replaced"), 1))
	commit := f.transact(func(c *call) {
		keys = keys[:0]
		c.number(slot("replaced"))
		c.now()
		for _, collection := range storage.Collections() {
			for i := range 20 {
				key := keyOf(collection, fmt.Sprint("new", i))
				keys = append(keys, key)
				c.create(storage.Record{Key: key, Document: []byte("{\"at\":\"\x01\"}")})
			}
		}
		keys = append(keys, slot("replaced"))
		c.replace(storage.Record{Key: slot("replaced"), Document: []byte("{\"at\":\"\x01\"}")})
	})
	want := fmt.Sprintf(`{"at":%q}`, inDocument(commit.Time))
	f.transact(func(c *call) {
		for key, rec := range c.getMany(keys...) {
			c.want(sameValue(want, rec.Document), "%s holds %s instead of %s", key, rec.Document, want)
		}
	})
}

// escapesAreNoMarks: the same characters, spelt with escapes, are data.
func escapesAreNoMarks(f *fixture) {
	const document = `{"a":"\u0001","b":"\u0002","c":["\u0001x"],"\u0001":1}`
	for _, collection := range storage.Collections() {
		key := keyOf(collection, "x")
		f.put(storage.Record{Key: key, Document: []byte(document)})
		f.holds(key, document)
		// What was read can be written again and stays data.
		f.transact(func(c *call) {
			rec, _ := c.get(key)
			c.replace(storage.Record{Key: key, Document: rec.Document})
		})
		f.holds(key, document)
	}
}

func laterHasBounds(f *fixture) {
	limits := storage.DefaultLimits()
	write := func(later time.Duration) error {
		_, err := f.try(func(c *call) {
			c.put(storage.Record{Key: slot("x"), Document: []byte("{\"at\":\"\x02\"}"), Later: later})
		})
		return err
	}
	require.NoError(f, write(0))
	require.NoError(f, write(limits.MaxLater))
	require.NoError(f, write(time.Microsecond))
	assert.ErrorIs(f, write(-time.Microsecond), storage.ErrInvalidDocument)
	assert.ErrorIs(f, write(limits.MaxLater+time.Microsecond), storage.ErrInvalidDocument)
}
