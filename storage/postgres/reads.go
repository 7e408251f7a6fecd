package postgres

import (
	"context"
	"errors"

	"github.com/seed4391e180/runlane/storage"
)

// Bounds of the statements that point reads share.
const (
	sharedReads     = 2   // statements under way at a time
	sharedReadCalls = 128 // in one statement
	sharedReadKeys  = 512 // of one statement
	memberReads     = 64  // keys of a read that may share
)

// pointRead is one point read on its way.
type pointRead struct {
	keys []storage.Key
	recs []storage.Record
}

// newReads makes the batcher of point reads. Reads do not mind each other: all that
// share a statement see its one snapshot, which is taken after each of them was asked
// for, since nobody joins a statement that has been sent.
func (d *Driver) newReads() *batcher[*pointRead] {
	board := func() func(*pointRead, bool) boarding {
		keys := 0
		return func(r *pointRead, room bool) boarding {
			if !room || keys > 0 && keys+len(r.keys) > sharedReadKeys {
				return wait
			}
			keys += len(r.keys)
			return aboard
		}
	}
	return &batcher[*pointRead]{
		admit: func(*pointRead) bool { return true }, board: board, land: func(*pointRead) {}, send: d.readShared,
		most: sharedReadCalls, free: sharedReads, trips: &d.calls,
	}
}

// readShared reads for several callers. An error says nothing about any one of them.
func (d *Driver) readShared(ctx context.Context, reads []*pointRead) error {
	askers := make(map[storage.Key][]*pointRead)
	var keys []storage.Key
	for _, r := range reads {
		for _, k := range r.keys {
			if askers[k] == nil {
				keys = append(keys, k)
			}
			askers[k] = append(askers[k], r)
		}
	}
	recs, err := (&session{d: d, label: "shared"}).lookup(ctx, keys)
	if err != nil {
		return err
	}
	for _, rec := range recs {
		for _, r := range askers[rec.Key] {
			r.recs = append(r.recs, rec)
		}
	}
	return nil
}

// lookupTogether reads with whoever else reads now.
func (s *session) lookupTogether(ctx context.Context, keys []storage.Key) ([]storage.Record, error) {
	r := &pointRead{keys: keys}
	travelled := true
	err := s.d.reads.do(ctx, r, func() (err error) {
		travelled = false
		r.recs, err = s.lookup(ctx, keys)
		return err
	})
	switch {
	case errors.Is(err, errAbandoned):
		return nil, ctx.Err() // r is not ours to look at
	case err != nil:
		return nil, err
	case travelled:
		s.roundTrips++
	}
	return r.recs, nil
}
