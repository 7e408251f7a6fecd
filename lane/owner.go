package lane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// Owners are the records that say which run an idempotency key or a singleton key
// stands for.
//
// An idempotency key stands for its run until its time is over, or, without a
// time, while the run is active. A run that has failed frees the key at once in
// either case: the work was not done, so whoever asks for it again shall get it.
// A cancelled run does not, since somebody decided that the work be left undone.
// A singleton key stands for its run while that is active.
//
// A run that ends deletes the owners that it frees in the same transaction. The
// rules are applied once more when a key is asked for, so an owner that was left
// behind, or has run out of time, is replaced.

// ErrOpaqueOwner says that the owner of a key was written by another version, so
// it cannot be told whether the key is free.
var ErrOpaqueOwner = errors.New("lane: the owner of a key was written by another version")

// owner is what an owner record says.
type owner struct {
	runID     string
	singleton bool
	expires   time.Time // of an idempotency key; zero: it stands for the run while that is active
}

func decodeOwner(rec storage.Record) (owner, bool) {
	if rec.Key.Collection == storage.SingletonOwners {
		o, kind := codec.DecodeSingletonOwner(rec)
		return owner{runID: o.RunID, singleton: true}, kind == codec.Canonical
	}
	o, kind := codec.DecodeIdempotencyOwner(rec)
	return owner{runID: o.RunID, expires: o.Expires}, kind == codec.Canonical
}

// verdict is whether an owner's run still holds the key.
type verdict uint8

const (
	free verdict = iota
	held
	timed // held if the time of the key is not over
)

// judge decides by the run that the owner names. A run that cannot be read is
// given the benefit of the doubt.
func (o owner) judge(r *run.Run, found bool, kind codec.Kind) verdict {
	opaque := kind == codec.Opaque
	switch {
	case !found || kind == codec.Tombstone:
		return free
	case o.singleton || o.expires.IsZero():
		if opaque || r.Status.Active() {
			return held
		}
		return free
	case !opaque && r.Status == run.StatusFailed:
		return free
	}
	return timed
}

// keyring is what one attempt of a transaction that creates runs knows of their keys.
type keyring struct {
	stored map[storage.Key]bool      // owners that exist, and are replaced if their key is free
	held   map[storage.Key]Triggered // keys that stand for an existing run
	taken  map[storage.Key]int       // keys that stand for a run of this transaction, by its place
}

// readKeys reads the owners of all keys that the drafts carry, and their runs. It
// is nil, and nothing is read, if they carry none.
func readKeys(ctx context.Context, tx storage.Tx, env string, drafts []*draft) (*keyring, error) {
	var wanted []storage.Key
	mode := []storage.ReadMode{storage.ReadOnly}
	for _, d := range drafts {
		for _, rec := range d.owners {
			wanted = append(wanted, rec.Key)
		}
		if d.named {
			mode = nil // the run of an owner may be the one that is about to be created
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	ring := &keyring{stored: map[storage.Key]bool{}, held: map[storage.Key]Triggered{}, taken: map[storage.Key]int{}}
	records, err := tx.GetMany(ctx, wanted)
	if err != nil || len(records) == 0 {
		return ring, err
	}
	owners := make(map[storage.Key]owner, len(records))
	runKeys := make([]storage.Key, 0, len(records))
	for key, rec := range records {
		o, ok := decodeOwner(rec)
		if !ok {
			return nil, fmt.Errorf("%w: %s", ErrOpaqueOwner, key)
		}
		runKey, err := codec.RunKey(env, o.runID)
		if err != nil {
			return nil, err
		}
		owners[key] = o
		runKeys = append(runKeys, runKey)
	}
	runs, err := tx.GetMany(ctx, runKeys, mode...)
	if err != nil {
		return nil, err
	}
	return ring, ring.fill(ctx, tx, env, owners, runs)
}

// fill decides which keys are held.
func (k *keyring) fill(ctx context.Context, tx storage.Tx, env string, owners map[storage.Key]owner, runs map[storage.Key]storage.Record) error {
	for key, o := range owners {
		k.stored[key] = true
		runKey, err := codec.RunKey(env, o.runID)
		if err != nil {
			return err
		}
		rec, found := runs[runKey]
		r, kind := codec.DecodeRun(rec)
		v := o.judge(&r, found, kind)
		if v == timed {
			// Only here the time matters; asking for it costs a round trip.
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			if now.Before(o.expires) {
				v = held
			}
		}
		if v == held {
			k.held[key] = Triggered{RunID: o.runID, Existing: true, Created: r.Created}
		}
	}
	return nil
}

// existing returns the run that one of the draft's keys stands for. If there is
// none, the keys stand for the draft from now on, which is the one at place.
func (k *keyring) existing(d *draft, place int, results []Triggered) (Triggered, bool) {
	if k == nil {
		return Triggered{}, false
	}
	for _, rec := range d.owners {
		if t, ok := k.held[rec.Key]; ok {
			return t, true
		}
		if i, ok := k.taken[rec.Key]; ok {
			return Triggered{RunID: results[i].RunID, Existing: true, Created: run.AtCommit}, true
		}
	}
	for _, rec := range d.owners {
		k.taken[rec.Key] = place
	}
	return Triggered{}, false
}

// freedBy returns the keys of the owners that a run frees with its status.
func freedBy(r *run.Run) ([]storage.Key, error) {
	if !r.Status.Terminal() {
		return nil, nil
	}
	var freed []storage.Key
	if r.IdempotencyKey != "" && (r.IdempotencyTTL == 0 || r.Status == run.StatusFailed) {
		key, err := codec.IdempotencyKey(r.Environment, r.Task, r.IdempotencyKey)
		if err != nil {
			return nil, err
		}
		freed = append(freed, key)
	}
	if r.SingletonKey != "" {
		key, err := codec.SingletonKey(r.Environment, r.Task, r.SingletonKey)
		if err != nil {
			return nil, err
		}
		freed = append(freed, key)
	}
	return freed, nil
}
