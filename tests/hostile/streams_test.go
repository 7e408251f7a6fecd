package hostile_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// head is the key of a stream's head.
func (s *store) head(environment, stream string) storage.Key {
	s.Helper()
	key, err := codec.ObservationHeadKey(environment, stream)
	require.NoError(s, err)
	return key
}

// stream returns what a stream holds, in order.
func (s *store) stream(environment, stream string) (all []codec.Observation) {
	s.Helper()
	partition, err := codec.ObservationsPartition(environment, stream)
	require.NoError(s, err)
	q := storage.Query{Index: storage.ObservationsByPosition, Partition: partition, Limit: storage.DefaultLimits().MaxPage}
	for {
		page := s.query(q)
		for _, rec := range page.Records {
			o, kind := codec.DecodeObservation(rec)
			require.Equal(s, codec.Canonical, kind, "%s", rec.Document)
			all = append(all, o)
		}
		if q.Resume = page.Resume; q.Resume.IsZero() {
			return all
		}
	}
}

// appends appends items to one stream in a transaction of its own.
func (s *store) appends(head storage.Key, items ...json.RawMessage) (storage.Commit, error) {
	return s.transact(func(ctx context.Context, tx storage.Tx) error { return tx.Append(ctx, head, items...) })
}

// TestHostileStreams appends every hostile text to streams with every hostile name.
func TestHostileStreams(t *testing.T) {
	t.Parallel()
	inEveryMode(t, func(s *store) {
		const environment = "{heads} $1 ' \" 😀"
		names := append(append([]string{}, texts...), longest...)
		numbers, printed := allNumbers()
		for _, round := range []int64{1, 2} {
			commit := s.must(func(ctx context.Context, tx storage.Tx) error {
				for _, name := range names {
					item := json.RawMessage(`{"text":` + string(asJSON(s.T, name)) + `}`)
					if err := tx.Append(ctx, s.head(environment, name), item, asJSON(s.T, name)); err != nil {
						return err
					}
				}
				return tx.Append(ctx, s.head(environment, "numbers"), numbers)
			})
			require.Len(s, commit.Appended, len(names)+1-len(longest[1:])) // some of the longest are texts as well
			for _, a := range commit.Appended {
				if items := a.Last - a.First + 1; items == 2 {
					require.Equal(s, 2*round-1, a.First)
				}
			}
			for i, name := range names {
				all := s.stream(environment, name)
				if i >= len(texts) && len(all) != int(2*round) {
					continue // twice among the names
				}
				last := all[len(all)-1]
				require.Equal(s, codec.Observation{Environment: environment, Stream: name, Position: int64(len(all)), At: commit.Time, Data: last.Data}, last)
				require.JSONEq(s, string(asJSON(s.T, name)), string(last.Data))
			}
			all := s.stream(environment, "numbers")
			require.Len(s, all, int(round))
			requireNumber(s.T, printed, all[round-1].Data)
		}
	})
}

// TestUnstorableItems: an item that cannot be stored is refused with its place, and
// leaves neither itself nor a gap.
func TestUnstorableItems(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *store) {
		head := s.head("e", "s")
		for name, bad := range unstorable {
			for _, item := range []string{bad, `{"a":` + bad + `}`} {
				_, err := s.appends(head, json.RawMessage(`1`), json.RawMessage(item))
				s.refused(err, storage.ErrInvalidDocument, "items[1]", "%s: %.40q", name, item)
			}
		}
		for _, mark := range []string{storage.CommitTime, storage.CommitTimeLater} {
			_, err := s.appends(head, json.RawMessage(`"`+mark+`"`))
			s.refused(err, storage.ErrInvalidDocument, "items[0]")
		}
		require.Zero(s, s.rows())
		commit, err := s.appends(head, json.RawMessage(`1`))
		require.NoError(s, err)
		require.Equal(s, []storage.Appended{{Head: head, First: 1, Last: 1}}, commit.Appended)
	})
}

// TestLongStreams: what the parts of a record's key and entry cannot hold is refused,
// and what was appended can be written again like any other record.
func TestLongStreams(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *store) {
		for _, bad := range []storage.Key{
			{Collection: storage.ObservationHeads, Partition: "$e!", ID: "$" + strings.Repeat("k", 3000) + "!"},
			{Collection: storage.ObservationHeads, Partition: "$" + strings.Repeat("k", 3000) + "!", ID: "$s!"},
		} {
			_, err := s.appends(bad, json.RawMessage(`1`))
			s.refused(err, storage.ErrTooLarge, "")
		}
		_, err := s.appends(storage.Key{Collection: storage.ObservationHeads, Partition: "$e!", ID: "$" + oneMore[1] + "!"}, json.RawMessage(`1`))
		s.refused(err, storage.ErrInvalidKey, "")
		require.Zero(s, s.rows())

		blank := strings.Repeat(" ", 255) // three bytes each when encoded
		for i, name := range [][2]string{{"e", blank}, {blank, "s"}, {blank, blank}, {blank, strings.Repeat("😀", 63)}} {
			head := s.head(name[0], name[1])
			if _, err := s.appends(head, json.RawMessage(`1`)); err != nil {
				s.refused(err, storage.ErrTooLarge, "", "%d", i)
				continue
			}
			o := s.stream(name[0], name[1])[0]
			rec, err := codec.EncodeObservation(o)
			require.NoError(s, err)
			s.replace(rec)
		}
		for _, n := range []int{1, 7, 8} {
			for _, text := range []int{0, 120_000, 950_000} {
				stream := show("%d %d", n, text)
				item := json.RawMessage("[" + strings.Repeat(expanding+",", n) + `"` + strings.Repeat("x", text) + `"]`)
				if _, err := s.appends(s.head("e", stream), item); err != nil {
					s.refused(err, storage.ErrTooLarge, "items[0]", stream)
					continue
				}
				rec, err := codec.EncodeObservation(s.stream("e", stream)[0])
				require.NoError(s, err)
				s.replace(rec)
			}
		}
	})
}
