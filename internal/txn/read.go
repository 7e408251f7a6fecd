package txn

import (
	"context"
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// Get is [storage.Tx.Get].
func (a *attempt) Get(ctx context.Context, key storage.Key, mode ...storage.ReadMode) (storage.Record, bool, error) {
	found, err := a.GetMany(ctx, []storage.Key{key}, mode...)
	if err != nil {
		return storage.Record{}, false, err
	}
	rec, ok := found[key]
	return rec, ok, nil
}

// GetMany is [storage.Tx.GetMany].
func (a *attempt) GetMany(ctx context.Context, keys []storage.Key, mode ...storage.ReadMode) (found map[storage.Key]storage.Record, err error) {
	defer a.note(&err)
	if err := a.usable(); err != nil {
		return nil, err
	}
	for _, key := range keys {
		if err := a.engine.Limits.CheckKey(key); err != nil {
			return nil, err
		}
	}
	if err := a.load(ctx, keys); err != nil {
		return nil, err
	}
	found = make(map[storage.Key]storage.Record, len(keys))
	for _, key := range keys {
		if s, ok := a.staged[key]; ok {
			if !s.deleted {
				// As any reader gets it: entries go in and never come out.
				found[key] = storage.Record{Key: key, Document: s.rec.Document}
			}
			continue
		}
		r := a.reads[key]
		for _, m := range mode {
			r.readOnly = r.readOnly || m == storage.ReadOnly && !a.appendsTo(key)
		}
		if !r.rec.Version.IsZero() {
			found[key] = r.rec
		}
	}
	return found, nil
}

// load makes every key that is not staged a member of the read set.
func (a *attempt) load(ctx context.Context, keys []storage.Key) error {
	var missing []storage.Key
	asked := make(map[storage.Key]bool, len(keys))
	for _, key := range keys {
		if asked[key] || a.staged[key] != nil || a.known(key) {
			continue
		}
		asked[key] = true
		missing = append(missing, key)
	}
	if len(missing) == 0 {
		return nil
	}
	if a.sealed {
		return &storage.InputError{Kind: storage.ErrSealed, Key: missing[0], Reason: "Now was called before this key was read"}
	}
	if len(a.reads)+len(missing) > a.engine.Limits.MaxKeys {
		return &storage.InputError{Kind: storage.ErrTooMany, Field: "keys of the transaction", Limit: a.engine.Limits.MaxKeys}
	}
	recs, err := a.lookup(ctx, missing)
	if err != nil {
		return err
	}
	for _, key := range missing {
		a.reads[key] = &read{}
	}
	for _, rec := range recs {
		a.reads[rec.Key].rec = rec
	}
	return nil
}

// known reports whether key is in the read set, taking what an exclusive query
// locked into it.
func (a *attempt) known(key storage.Key) bool {
	if a.reads[key] != nil {
		return true
	}
	rec, ok := a.carried[key]
	if ok {
		a.reads[key] = &read{rec: rec, locked: true}
	}
	return ok
}

func (a *attempt) lookup(ctx context.Context, keys []storage.Key) ([]storage.Record, error) {
	recs, err := a.sess.Lookup(ctx, keys)
	if err != nil {
		return nil, a.fail(err)
	}
	a.separate++
	a.pageTime = time.Time{}
	return recs, nil
}

// Peek is [storage.Tx.Peek].
func (a *attempt) Peek(ctx context.Context, keys []storage.Key) (found map[storage.Key]storage.Record, err error) {
	defer a.note(&err)
	if err := a.usable(); err != nil {
		return nil, err
	}
	asked := make(map[storage.Key]bool, len(keys))
	var distinct []storage.Key
	for _, key := range keys {
		if err := a.engine.Limits.CheckKey(key); err != nil {
			return nil, err
		}
		if !asked[key] {
			asked[key] = true
			distinct = append(distinct, key)
		}
	}
	if len(distinct) > a.engine.Limits.MaxKeys {
		return nil, &storage.InputError{Kind: storage.ErrTooMany, Field: "keys", Limit: a.engine.Limits.MaxKeys}
	}
	found = make(map[storage.Key]storage.Record, len(distinct))
	if len(distinct) == 0 {
		return found, nil
	}
	recs, err := a.sess.Lookup(ctx, distinct)
	if err != nil {
		return nil, a.fail(err)
	}
	for _, rec := range recs {
		found[rec.Key] = rec
	}
	return found, nil
}

// Assume is [storage.Tx.Assume].
func (a *attempt) Assume(ctx context.Context, rec storage.Record) (now storage.Record, found bool, err error) {
	defer a.note(&err)
	if rec.Version.IsZero() {
		if err := a.usable(); err != nil {
			return storage.Record{}, false, err
		}
		return storage.Record{}, false, &storage.InputError{Kind: storage.ErrInvalidKey, Key: rec.Key, Field: "version", Reason: "an assumed record has the version it was read with"}
	}
	return a.assume(ctx, rec)
}

// AssumeAbsent is [storage.Tx.AssumeAbsent].
func (a *attempt) AssumeAbsent(ctx context.Context, key storage.Key) (now storage.Record, found bool, err error) {
	defer a.note(&err)
	return a.assume(ctx, storage.Record{Key: key})
}

func (a *attempt) assume(ctx context.Context, rec storage.Record) (storage.Record, bool, error) {
	if err := a.usable(); err != nil {
		return storage.Record{}, false, err
	}
	if err := a.engine.Limits.CheckKey(rec.Key); err != nil {
		return storage.Record{}, false, err
	}
	if a.number == 1 && !a.sealed && a.staged[rec.Key] == nil && !a.known(rec.Key) {
		a.reads[rec.Key] = &read{rec: rec}
		a.separate += 2
		a.pageTime = time.Time{}
	}
	return a.Get(ctx, rec.Key)
}

// Query is [storage.Tx.Query].
func (a *attempt) Query(ctx context.Context, q storage.Query) (page storage.Page, err error) {
	defer a.note(&err)
	if err := a.usable(); err != nil {
		return storage.Page{}, err
	}
	q, err = a.engine.Limits.CheckQuery(q)
	if err != nil {
		return storage.Page{}, err
	}
	first := len(a.reads) == 0 && len(a.staged) == 0 && len(a.carried) == 0 && a.separate == 0 && len(a.held) == 0
	page, err = a.sess.Select(ctx, q)
	if err != nil {
		return storage.Page{}, a.fail(err)
	}
	if q.Lock != storage.Exclusive {
		return page, nil
	}
	a.separate++
	if first || !a.pageTime.IsZero() {
		a.pageTime = page.Time
	}
	for _, rec := range page.Records {
		if err := a.carry(rec); err != nil {
			return storage.Page{}, err
		}
	}
	return page, nil
}

// carry keeps a record that an exclusive query locked. A record that was read
// before must still be the same.
func (a *attempt) carry(rec storage.Record) error {
	if r := a.reads[rec.Key]; r != nil {
		if r.rec.Version != rec.Version {
			return a.stale(storage.ReasonChanged, rec.Key)
		}
		r.locked = true
	} else {
		a.carried[rec.Key] = rec
	}
	a.held[rec.Key] = false
	return nil
}

// Now is [storage.Tx.Now].
func (a *attempt) Now(ctx context.Context) (now time.Time, err error) {
	defer a.note(&err)
	if err := a.usable(); err != nil {
		return time.Time{}, err
	}
	if a.sealed {
		return a.now, nil
	}
	if !a.pageTime.IsZero() {
		a.sealed, a.now = true, a.pageTime
		return a.now, nil
	}
	plan := a.sealPlan()
	if len(plan.Locks)+len(a.held) > a.engine.Limits.MaxKeys {
		return time.Time{}, &storage.InputError{Kind: storage.ErrTooMany, Field: "keys of the transaction", Limit: a.engine.Limits.MaxKeys}
	}
	now, err = a.sess.Seal(ctx, plan)
	if err != nil {
		return time.Time{}, a.fail(err)
	}
	for _, l := range plan.Locks {
		a.held[l.Key] = l.Shared
	}
	a.sealed, a.now = true, now
	return now, nil
}
