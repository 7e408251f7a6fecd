package txn

import (
	"context"

	"github.com/seed4391e180/runlane/storage"
)

// Create is [storage.Tx.Create].
func (a *attempt) Create(ctx context.Context, rec storage.Record) error {
	if err := a.usable(); err != nil {
		return err
	}
	if err := a.engine.Limits.CheckRecord(rec); err != nil {
		return err
	}
	if err := a.revisit(ctx, rec.Key); err != nil {
		return err
	}
	blind := true
	if s := a.staged[rec.Key]; s != nil {
		if !s.deleted {
			return existsError(rec.Key)
		}
		blind = s.blind
	} else if a.known(rec.Key) {
		if r := a.reads[rec.Key]; !r.rec.Version.IsZero() {
			return existsError(rec.Key)
		} else if r.readOnly {
			return readOnlyError(rec.Key)
		}
		blind = false
	}
	return a.stage(rec, &stage{rec: rec, blind: blind})
}

// revisit makes sure that a replay does not create blindly what the attempt before
// created: it reads all of those keys, once, under the locks that
// the replay began with. They may be read after Now as well, since they are locked.
func (a *attempt) revisit(ctx context.Context, key storage.Key) error {
	if a.before == nil || !a.before.created(key) || a.staged[key] != nil || a.known(key) {
		return nil
	}
	if a.blind == nil {
		var keys []storage.Key
		for k := range a.before.staged {
			if a.before.created(k) && !a.known(k) {
				keys = append(keys, k)
			}
		}
		recs, err := a.lookup(ctx, keys)
		if err != nil {
			return err
		}
		a.blind = make(map[storage.Key]*storage.Record, len(recs))
		for i := range recs {
			a.blind[recs[i].Key] = &recs[i]
		}
	}
	r := &read{}
	if rec := a.blind[key]; rec != nil {
		r.rec = *rec
	}
	a.reads[key] = r
	return nil
}

// created reports whether the attempt created key, blindly or after a revisit.
func (a *attempt) created(key storage.Key) bool {
	s, r := a.staged[key], a.reads[key]
	return s != nil && (s.blind || r != nil && r.rec.Version.IsZero())
}

// Replace is [storage.Tx.Replace].
func (a *attempt) Replace(_ context.Context, rec storage.Record) error {
	if err := a.usable(); err != nil {
		return err
	}
	if err := a.engine.Limits.CheckRecord(rec); err != nil {
		return err
	}
	blind, err := a.writable(rec.Key)
	if err != nil {
		return err
	}
	return a.stage(rec, &stage{rec: rec, blind: blind})
}

// Delete is [storage.Tx.Delete].
func (a *attempt) Delete(_ context.Context, key storage.Key) error {
	if err := a.usable(); err != nil {
		return err
	}
	if err := a.engine.Limits.CheckKey(key); err != nil {
		return err
	}
	blind, err := a.writable(key)
	if err != nil {
		return err
	}
	return a.stage(storage.Record{Key: key}, &stage{rec: storage.Record{Key: key}, deleted: true, blind: blind})
}

// writable checks that the transaction sees key present and may write it.
func (a *attempt) writable(key storage.Key) (blind bool, err error) {
	if s := a.staged[key]; s != nil {
		if s.deleted {
			return false, notReadError(key, "the transaction has deleted it")
		}
		return s.blind, nil
	}
	if !a.known(key) {
		return false, notReadError(key, "the transaction has not read it")
	}
	r := a.reads[key]
	if r.rec.Version.IsZero() {
		return false, notReadError(key, "the transaction has seen it absent")
	}
	if r.readOnly {
		return false, readOnlyError(key)
	}
	return false, nil
}

// stage stages one write within the transaction's limits.
func (a *attempt) stage(rec storage.Record, s *stage) error {
	limits := a.engine.Limits
	old := a.staged[rec.Key]
	bytes := a.bytes + len(rec.Document)
	if old != nil {
		bytes -= len(old.rec.Document)
	} else if len(a.staged) >= limits.MaxMutations {
		return &storage.InputError{Kind: storage.ErrTooMany, Key: rec.Key, Field: "mutations of the transaction", Limit: limits.MaxMutations}
	}
	if bytes > limits.MaxTransaction {
		return &storage.InputError{Kind: storage.ErrTooLarge, Key: rec.Key, Field: "documents of the transaction", Limit: limits.MaxTransaction}
	}
	a.bytes = bytes
	a.staged[rec.Key] = s
	return nil
}

// Wake is [storage.Tx.Wake].
func (a *attempt) Wake(topic string) error {
	if err := a.usable(); err != nil {
		return err
	}
	if err := a.engine.Limits.CheckTopic(topic); err != nil {
		return err
	}
	for _, t := range a.topics {
		if t == topic {
			return nil
		}
	}
	if len(a.topics) >= a.engine.Limits.MaxTopics {
		return &storage.InputError{Kind: storage.ErrTooMany, Field: "topics of the transaction", Limit: a.engine.Limits.MaxTopics}
	}
	a.topics = append(a.topics, topic)
	return nil
}

func existsError(key storage.Key) error {
	return &storage.InputError{Kind: storage.ErrRecordExists, Key: key}
}

func notReadError(key storage.Key, reason string) error {
	return &storage.InputError{Kind: storage.ErrRecordNotRead, Key: key, Reason: reason}
}

func readOnlyError(key storage.Key) error {
	return &storage.InputError{Kind: storage.ErrReadOnlyKey, Key: key}
}
