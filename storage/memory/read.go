package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// Get implements [storage.Tx].
func (a *attempt) Get(ctx context.Context, key storage.Key, mode ...storage.ReadMode) (storage.Record, bool, error) {
	found, err := a.GetMany(ctx, []storage.Key{key}, mode...)
	if err != nil {
		return storage.Record{}, false, err
	}
	rec, ok := found[key]
	return rec, ok, nil
}

// GetMany implements [storage.Tx].
func (a *attempt) GetMany(ctx context.Context, keys []storage.Key, mode ...storage.ReadMode) (found map[storage.Key]storage.Record, err error) {
	defer a.note(&err)
	if err := a.admit(ctx, keys); err != nil {
		return nil, err
	}
	a.fetch(keys)
	found = make(map[storage.Key]storage.Record, len(keys))
	for _, key := range keys {
		k := a.keys[key]
		k.seen = true
		if slices.Contains(mode, storage.ReadOnly) && !k.touched && a.tailOf(key) == nil {
			k.readOnly = true
		}
		if rec, ok := k.current(); ok {
			found[key] = rec
		}
	}
	return found, nil
}

// Peek implements [storage.Tx].
func (a *attempt) Peek(ctx context.Context, keys []storage.Key) (found map[storage.Key]storage.Record, err error) {
	defer a.note(&err)
	if err := a.usable(ctx); err != nil {
		return nil, err
	}
	if len(keys) > a.driver.limits.MaxKeys {
		return nil, &storage.InputError{Kind: storage.ErrTooMany, Field: "keys", Limit: a.driver.limits.MaxKeys}
	}
	for _, key := range keys {
		if err := a.driver.limits.CheckKey(key); err != nil {
			return nil, err
		}
	}
	a.used = true
	found = make(map[storage.Key]storage.Record, len(keys))
	a.driver.mu.Lock()
	defer a.driver.mu.Unlock()
	for _, key := range keys {
		if r := a.driver.state.get(key); r != nil {
			found[key] = r.record(key)
		}
	}
	return found, nil
}

// Assume implements [storage.Tx].
func (a *attempt) Assume(ctx context.Context, rec storage.Record) (now storage.Record, found bool, err error) {
	if rec.Version.IsZero() {
		defer a.note(&err)
		if err := a.usable(ctx); err != nil {
			return storage.Record{}, false, err
		}
		return storage.Record{}, false, &storage.InputError{Kind: storage.ErrInvalidKey, Key: rec.Key, Field: "version", Reason: "an assumed record has the version it was read with"}
	}
	return a.assume(ctx, storage.Record{Key: rec.Key, Version: rec.Version, Document: rec.Document})
}

// AssumeAbsent implements [storage.Tx].
func (a *attempt) AssumeAbsent(ctx context.Context, key storage.Key) (storage.Record, bool, error) {
	return a.assume(ctx, storage.Record{Key: key})
}

func (a *attempt) assume(ctx context.Context, rec storage.Record) (now storage.Record, found bool, err error) {
	defer a.note(&err)
	if a.number > 1 {
		return a.Get(ctx, rec.Key)
	}
	if err := a.admit(ctx, []storage.Key{rec.Key}); err != nil {
		return storage.Record{}, false, err
	}
	k := a.keys[rec.Key]
	if k == nil {
		k = &keyState{known: true, base: rec}
		a.keys[rec.Key] = k
		a.assumed = true
		a.noteRead()
	}
	k.seen = true
	now, found = k.current()
	return now, found, nil
}

// admit checks what every point read asks: the keys, and that none of them is new
// to a sealed attempt. It refuses them all or none.
func (a *attempt) admit(ctx context.Context, keys []storage.Key) error {
	if err := a.usable(ctx); err != nil {
		return err
	}
	unknown := map[storage.Key]bool{}
	for _, key := range keys {
		if err := a.driver.limits.CheckKey(key); err != nil {
			return err
		}
		if a.keys[key] != nil {
			continue
		}
		if a.sealed {
			return fmt.Errorf("%w: %s was not read before", storage.ErrSealed, key)
		}
		unknown[key] = true
	}
	return a.room(len(unknown))
}

// fetch reads the keys that the attempt has not touched, in one snapshot.
func (a *attempt) fetch(keys []storage.Key) {
	a.driver.mu.Lock()
	defer a.driver.mu.Unlock()
	read := false
	for _, key := range keys {
		if a.keys[key] != nil {
			continue
		}
		base := storage.Record{Key: key}
		if r := a.driver.state.get(key); r != nil {
			base = r.record(key)
		}
		a.keys[key] = &keyState{known: true, base: base}
		read = true
	}
	if read {
		a.reads++
		a.noteRead()
	}
}

// noteRead remembers that something was read, so that Now can no longer be the
// time of an exclusive page.
func (a *attempt) noteRead() {
	a.used = true
	a.pageTime = time.Time{}
}
