package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed4391e180/runlane/storage"
)

// Create implements [storage.Tx].
func (a *attempt) Create(ctx context.Context, rec storage.Record) (err error) {
	defer a.note(&err)
	if err := a.stageable(ctx, rec.Key); err != nil {
		return err
	}
	if err := a.driver.limits.CheckRecord(rec); err != nil {
		return err
	}
	k := a.keys[rec.Key]
	if k == nil && a.number > 1 {
		k = a.learn(rec.Key)
	}
	if k != nil {
		if k.readOnly {
			return fmt.Errorf("%w: %s", storage.ErrReadOnlyKey, rec.Key)
		}
		if _, present := k.current(); present {
			return fmt.Errorf("%w: %s", storage.ErrRecordExists, rec.Key)
		}
	}
	return a.stage(rec)
}

// Replace implements [storage.Tx].
func (a *attempt) Replace(ctx context.Context, rec storage.Record) (err error) {
	defer a.note(&err)
	if err := a.stageable(ctx, rec.Key); err != nil {
		return err
	}
	if err := a.driver.limits.CheckRecord(rec); err != nil {
		return err
	}
	if err := a.fenced(rec.Key); err != nil {
		return err
	}
	return a.stage(rec)
}

// Delete implements [storage.Tx].
func (a *attempt) Delete(ctx context.Context, key storage.Key) (err error) {
	defer a.note(&err)
	if err := a.stageable(ctx, key); err != nil {
		return err
	}
	if err := a.fenced(key); err != nil {
		return err
	}
	if err := a.count(key, 0); err != nil {
		return err
	}
	k := a.keys[key]
	k.record, k.size, k.staged, k.touched = storage.Record{}, 0, removal, true
	if k.base.Version.IsZero() {
		// Taken back: nothing is left of the Create but that the key must be absent.
		k.staged = nothing
		a.mutations--
	}
	return nil
}

// Wake implements [storage.Tx].
func (a *attempt) Wake(topic string) (err error) {
	defer a.note(&err)
	if err := a.usable(context.Background()); err != nil {
		return err
	}
	if err := a.driver.limits.CheckTopic(topic); err != nil {
		return err
	}
	if slices.Contains(a.topics, topic) {
		return nil
	}
	if len(a.topics) == a.driver.limits.MaxTopics {
		return &storage.InputError{Kind: storage.ErrTooMany, Field: "topics", Limit: a.driver.limits.MaxTopics}
	}
	a.topics = append(a.topics, topic)
	return nil
}

func (a *attempt) stageable(ctx context.Context, key storage.Key) error {
	if err := a.usable(ctx); err != nil {
		return err
	}
	return a.driver.limits.CheckKey(key)
}

// fenced checks that the transaction knows the record that it is about to write
// over, so that there is a version to compare with.
func (a *attempt) fenced(key storage.Key) error {
	k := a.keys[key]
	if k == nil || !k.seen && k.staged == nothing {
		return fmt.Errorf("%w: %s", storage.ErrRecordNotRead, key)
	}
	if k.readOnly {
		return fmt.Errorf("%w: %s", storage.ErrReadOnlyKey, key)
	}
	if _, present := k.current(); !present {
		return fmt.Errorf("%w: %s is absent", storage.ErrRecordNotRead, key)
	}
	return nil
}

// learn reads a key without telling the callback, if the attempt holds its lock.
// The attempt before may have created it blindly and collided; under the lock the
// truth can be told, since it cannot change any more.
func (a *attempt) learn(key storage.Key) *keyState {
	a.driver.mu.Lock()
	defer a.driver.mu.Unlock()
	if a.held[key] != exclusive {
		return nil
	}
	k := &keyState{known: true, base: storage.Record{Key: key}}
	if r := a.driver.state.get(key); r != nil {
		k.base = r.record(key)
	}
	a.keys[key] = k
	return k
}

// stage puts a checked record in place of whatever was staged for its key.
func (a *attempt) stage(rec storage.Record) error {
	size := len(rec.Document)
	doc, err := canonical(rec)
	if err != nil {
		return err
	}
	if err := a.count(rec.Key, size); err != nil {
		return err
	}
	k := a.keys[rec.Key]
	if k == nil {
		k = &keyState{fresh: true}
		a.keys[rec.Key] = k
	}
	rec.Document, rec.Entries = doc, slices.Clone(rec.Entries)
	k.staged, k.record, k.size, k.touched = put, rec, size, true
	return nil
}

// count adds a document of that size to what is staged, within the limits.
func (a *attempt) count(key storage.Key, size int) error {
	limits := a.driver.limits
	k := a.keys[key]
	mutations, bytes := a.mutations, a.bytes+size
	if k == nil {
		if err := a.room(1); err != nil {
			return err
		}
	} else {
		bytes -= k.size
	}
	if k == nil || k.staged == nothing {
		mutations++
	}
	if mutations > limits.MaxMutations {
		return &storage.InputError{Kind: storage.ErrTooMany, Key: key, Field: "mutations", Limit: limits.MaxMutations}
	}
	if bytes > limits.MaxTransaction {
		return &storage.InputError{Kind: storage.ErrTooLarge, Key: key, Field: "documents of the transaction", Limit: limits.MaxTransaction}
	}
	a.mutations, a.bytes, a.used = mutations, bytes, true
	return nil
}
