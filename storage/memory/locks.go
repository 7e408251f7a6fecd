package memory

import (
	"context"
	"slices"
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// lockMode is how a key is held. An exclusive lock includes a shared one.
type lockMode uint8

const (
	shared lockMode = iota + 1
	exclusive
)

// lockRequest is one key that an attempt wants to hold.
type lockRequest struct {
	key  storage.Key
	mode lockMode
}

// lockTable holds the locks of keys, whether or not a record is stored under
// them: what protects an absent record is the lock of its key. It is used under
// the mutex of the driver.
type lockTable map[storage.Key]*keyLock

type keyLock struct {
	holders map[*attempt]lockMode
	queue   []*waiter // in the order of arrival
}

type waiter struct {
	owner   *attempt
	key     storage.Key
	mode    lockMode
	granted chan struct{}
}

// try takes a lock if that is possible at once. It does not overtake those who
// wait, or a stream of readers could keep a writer waiting for ever.
func (t lockTable) try(owner *attempt, key storage.Key, mode lockMode) bool {
	if owner.held[key] >= mode {
		return true
	}
	l := t[key]
	if l == nil {
		l = &keyLock{holders: map[*attempt]lockMode{}}
		t[key] = l
	}
	if !l.compatible(owner, mode) || l.awaited(mode) {
		return false
	}
	l.grant(owner, key, mode)
	return true
}

// compatible reports whether the holders other than owner leave room for mode.
func (l *keyLock) compatible(owner *attempt, mode lockMode) bool {
	for holder, held := range l.holders {
		if holder != owner && (held == exclusive || mode == exclusive) {
			return false
		}
	}
	return true
}

func (l *keyLock) awaited(mode lockMode) bool {
	return slices.ContainsFunc(l.queue, func(w *waiter) bool { return w.mode == exclusive || mode == exclusive })
}

func (l *keyLock) grant(owner *attempt, key storage.Key, mode lockMode) {
	l.holders[owner] = mode
	owner.held[key] = mode
}

// enqueue puts the owner in line for a lock that try refused.
func (t lockTable) enqueue(owner *attempt, key storage.Key, mode lockMode) *waiter {
	w := &waiter{owner: owner, key: key, mode: mode, granted: make(chan struct{})}
	t[key].queue = append(t[key].queue, w)
	owner.waits = w
	return w
}

// leave takes a waiter out of the line. It reports whether the lock had been
// granted in the meantime.
func (t lockTable) leave(key storage.Key, w *waiter) (granted bool) {
	l := t[key]
	at := slices.Index(l.queue, w)
	if at < 0 {
		return true
	}
	l.queue = slices.Delete(l.queue, at, at+1)
	w.owner.waits = nil
	t.advance(key, l)
	return false
}

// circular reports whether an attempt waits, through others, for itself.
func (t lockTable) circular(owner *attempt) bool {
	seen := map[*attempt]bool{}
	next := []*attempt{owner}
	for len(next) > 0 {
		a := next[len(next)-1]
		next = next[:len(next)-1]
		if a.waits == nil {
			continue
		}
		for _, b := range t.blockers(a.waits) {
			if b == owner {
				return true
			}
			if !seen[b] {
				seen[b] = true
				next = append(next, b)
			}
		}
	}
	return false
}

// blockers lists whom a waiter waits for: those who hold the lock and those who are
// in front of it.
func (t lockTable) blockers(w *waiter) []*attempt {
	l := t[w.key]
	var all []*attempt
	for holder, held := range l.holders {
		if holder != w.owner && (held == exclusive || w.mode == exclusive) {
			all = append(all, holder)
		}
	}
	for _, other := range l.queue {
		if other == w {
			break
		}
		all = append(all, other.owner)
	}
	return all
}

// release gives back everything that the owner holds.
func (t lockTable) release(owner *attempt) {
	for key := range owner.held {
		l := t[key]
		delete(l.holders, owner)
		t.advance(key, l)
	}
	owner.held = nil
}

// advance grants the lock to those in front of the line who can have it, and
// forgets a lock that nobody holds or wants.
func (t lockTable) advance(key storage.Key, l *keyLock) {
	for len(l.queue) > 0 {
		w := l.queue[0]
		if !l.compatible(w.owner, w.mode) {
			return
		}
		l.queue = l.queue[1:]
		w.owner.waits = nil
		l.grant(w.owner, key, w.mode)
		close(w.granted)
	}
	if len(l.holders) == 0 {
		delete(t, key)
	}
}

// wait takes the locks one after the other, in the order of the keys, waiting for
// each. Those who wait before taking any other lock never wait in a circle. Those
// who wait for the heads of streams hold what else they touched: whoever would close
// a circle gives up instead.
func (a *attempt) wait(ctx context.Context, requests []lockRequest) error {
	for _, r := range requests {
		if err := a.waitFor(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (a *attempt) waitFor(ctx context.Context, r lockRequest) error {
	d := a.driver
	d.mu.Lock()
	if d.locks.try(a, r.key, r.mode) {
		d.mu.Unlock()
		return nil
	}
	w := d.locks.enqueue(a, r.key, r.mode)
	if d.locks.circular(a) {
		d.locks.leave(r.key, w)
		d.mu.Unlock()
		return &replay{reason: storage.ReasonDeadlock, key: r.key}
	}
	d.mu.Unlock()

	timer := time.NewTimer(d.cfg.LockTimeout)
	defer timer.Stop()
	var err error
	select {
	case <-w.granted:
		return nil
	case <-timer.C:
		err = &replay{reason: storage.ReasonLocked, key: r.key}
	case <-ctx.Done():
		err = ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locks.leave(r.key, w) {
		return nil
	}
	return err
}
