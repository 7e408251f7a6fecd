package hostile_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage"
)

// TestVersionsBeyondSmallIntegers restarts the sequence of versions where integers
// of 32 bits and the exact integers of a float end, and just before it ends itself.
// Neighbours stay distinct fences on every way that a version takes.
func TestVersionsBeyondSmallIntegers(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	sq := db.Pool(t)
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			for i, edge := range []int64{1 << 31, 1 << 53, math.MaxInt64 - 8192} {
				s := &store{t, openOn(t, db, withMode(m.mode)), db, sq} // it has drawn no versions yet
				s.sql(show("ALTER SEQUENCE runlane.runlane_record_versions RESTART WITH %d", edge-100))
				s.versionsAreFences(show("$e%d!", i), edge)
				s.clear()
			}
		})
	}
}

// versionsAreFences writes so many records at once that their versions reach from
// below the edge to above it, reads them back in every way, and offers the neighbours
// at the edge in each other's place.
func (s *store) versionsAreFences(partition string, edge int64) {
	s.Helper()
	recs := make([]storage.Record, 1100) // more than a driver draws at a time
	for i := range recs {
		recs[i] = storage.Record{
			Key:      storage.Key{Collection: storage.Runs, Partition: partition, ID: show("$%04d!", i)},
			Document: []byte(`{"value":{"payload":1}}`),
			Entries:  []storage.Entry{{Index: storage.RunsByDue, Partition: partition, Sort: show("$%04d!", i)}},
		}
	}
	versions := s.create(recs...).Versions
	byVersion := map[int64]storage.Record{}
	for i := range recs {
		recs[i].Version = versions[recs[i].Key]
		byVersion[recs[i].Version.Int64()] = recs[i]
	}
	require.Len(s, byVersion, len(recs))
	for key, rec := range s.readAll(keysOf(recs)...) {
		require.Equal(s, versions[key], rec.Version)
	}
	for v := edge - 2; v < edge+2; v++ {
		rec, ok := byVersion[v]
		require.True(s, ok, "no record has version %d", v)
		neighbour := rec
		neighbour.Version = storage.MakeVersion(v + 1)
		for _, lock := range []storage.Lock{storage.Candidates, storage.Exclusive} {
			page := s.query(storage.Query{Index: storage.RunsByDue, Partition: partition, From: storage.At(rec.Entries[0].Sort), Limit: 1, Lock: lock})
			require.Equal(s, rec.Version, page.Records[0].Version)
		}
		other := byVersion[v+1]
		commit := s.assumesAndReplaces(neighbour, other)
		require.Equal(s, 2, commit.Attempts, "the next version is another")
		rec.Version = commit.Versions[rec.Key]
		commit = s.assumesAndReplaces(rec, other)
		require.Equal(s, 1, commit.Attempts, "the version that a commit reports is the record's")
		rec.Version, other.Version = commit.Versions[rec.Key], storage.MakeVersion(v+2)
		commit = s.assumesAndReplaces(rec, other)
		require.Equal(s, 2, commit.Attempts, "of what is only read as well")
	}
	// Now holds records under their versions, and a delete is fenced by them.
	first := byVersion[edge-10].Key
	s.must(func(ctx context.Context, tx storage.Tx) error {
		if _, err := tx.GetMany(ctx, []storage.Key{first, byVersion[edge+10].Key}); err != nil {
			return err
		}
		if _, err := tx.Now(ctx); err != nil {
			return err
		}
		return tx.Delete(ctx, first)
	})
	require.NotContains(s, s.readAll(first), first)
}

// assumesAndReplaces replaces a record that it assumes, and depends on another.
func (s *store) assumesAndReplaces(rec, other storage.Record) storage.Commit {
	s.Helper()
	return s.must(func(ctx context.Context, tx storage.Tx) error {
		if _, _, err := tx.Assume(ctx, other); err != nil {
			return err
		}
		if _, _, err := tx.Assume(ctx, rec); err != nil {
			return err
		}
		return tx.Replace(ctx, rec)
	})
}
