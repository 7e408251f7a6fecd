package memory

import (
	"context"
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// Now implements [storage.Tx].
func (a *attempt) Now(ctx context.Context) (now time.Time, err error) {
	defer a.note(&err)
	if err := a.usable(ctx); err != nil {
		return time.Time{}, err
	}
	if a.sealed {
		return a.sealTime, nil
	}
	a.sealed, a.used = true, true
	if !a.pageTime.IsZero() {
		a.sealTime = a.pageTime
		return a.sealTime, nil
	}
	d := a.driver
	d.mu.Lock()
	defer d.mu.Unlock()
	if stale := a.seal(); stale != nil {
		return time.Time{}, a.stale(stale)
	}
	a.sealTime = d.now()
	return a.sealTime, nil
}

func (a *attempt) lockedSeal() *replay {
	a.driver.mu.Lock()
	defer a.driver.mu.Unlock()
	return a.seal()
}

// seal locks everything that the attempt touched and then checks that what it saw
// still holds. From here on nobody else can change it. The caller holds the mutex
// of the driver.
func (a *attempt) seal() *replay {
	sorted := a.sortedKeys()
	for _, key := range sorted {
		if !a.driver.locks.try(a, key, a.lockMode(key, a.keys[key])) {
			return &replay{reason: storage.ReasonLocked, key: key}
		}
	}
	for _, key := range sorted {
		if stale := a.check(key, a.keys[key]); stale != nil {
			return stale
		}
	}
	return nil
}

// check compares what the attempt expects of a key with what is committed.
func (a *attempt) check(key storage.Key, k *keyState) *replay {
	committed := a.driver.state.version(key)
	switch {
	case k.known && committed != k.base.Version:
		return &replay{reason: storage.ReasonChanged, key: key}
	case k.fresh && !committed.IsZero():
		return &replay{reason: storage.ReasonExists, key: key}
	}
	return nil
}

// validate checks, without locks and in one snapshot, what the callback was told.
func (a *attempt) validate() *replay {
	a.driver.mu.Lock()
	defer a.driver.mu.Unlock()
	for _, key := range a.sortedKeys() {
		if k := a.keys[key]; k.known {
			if stale := a.check(key, k); stale != nil {
				return stale
			}
		}
	}
	return nil
}
