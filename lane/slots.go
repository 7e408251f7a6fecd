package lane

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
)

// A queue with limits has numbered slots, and so has each concurrency key in it. A
// claim looks at the slots without a lock and creates those that it saw free under
// the lease's token: of two claims that saw the same slot free, one commits, and the
// other looks again. Whatever ends the lease deletes its slots in the same
// transaction. So a slot is held exactly while its lease is, and nobody counts.

// MaxQueueLimit is the largest limit of a queue.
const MaxQueueLimit = 1000

// QueueLimits bounds how many runs of a queue are being worked on at a time, in all
// processes together; 0 is no limit. All processes of an environment that work on a
// queue must have the same limits for it: one that knows no limit takes no slots.
type QueueLimits struct {
	// Running is how many runs of the queue.
	Running int
	// PerKey is how many runs with the same TriggerOptions.ConcurrencyKey. Runs
	// without a key do not count.
	PerKey int
}

func checkLimits(all map[string]QueueLimits) error {
	for queue, limits := range all {
		if err := keys.CheckName("queue", queue); err != nil {
			return err
		}
		if min(limits.Running, limits.PerKey) < 0 || max(limits.Running, limits.PerKey) > MaxQueueLimit {
			return fmt.Errorf("the limits of queue %q are not between 0 and %d", queue, MaxQueueLimit)
		}
	}
	return nil
}

// slotOf is a slot of the queue as a whole or of a concurrency key.
type slotOf struct {
	concurrencyKey string
	slot           int
}

// heldBy returns the slots that the lease of a run holds.
func heldBy(r *run.Run) (held []slotOf) {
	for _, s := range []slotOf{{"", r.Lease.QueueSlot}, {r.ConcurrencyKey, r.Lease.KeySlot}} {
		if s.slot > 0 {
			held = append(held, s)
		}
	}
	return held
}

// slotKeys returns the keys of the slots that a lease holds.
func slotKeys(r *run.Run) ([]storage.Key, error) {
	var all []storage.Key
	for _, s := range heldBy(r) {
		key, err := codec.QueueSlotKey(r.Environment, r.Queue, s.concurrencyKey, s.slot)
		if err != nil {
			return nil, err
		}
		all = append(all, key)
	}
	return all, nil
}

// slotRecords returns the records of the slots that a lease holds.
func slotRecords(r *run.Run) ([]storage.Record, error) {
	var all []storage.Record
	for _, s := range heldBy(r) {
		rec, err := codec.EncodeQueueSlot(codec.QueueSlot{
			Environment: r.Environment, Queue: r.Queue, ConcurrencyKey: s.concurrencyKey, Slot: s.slot,
			RunID: r.ID, Token: r.Lease.Token, Expires: r.Lease.Expires,
		})
		if err != nil {
			return nil, err
		}
		all = append(all, rec)
	}
	return all, nil
}

// maxPeeks is how many records one read looks at.
const maxPeeks = 2000

// capacity is what one attempt of a claim knows of the slots of a queue.
type capacity struct {
	queue  string
	limits QueueLimits
	luck   float64          // in [0, 1): where to begin, so that claims seldom try the same
	free   map[string][]int // slots seen free, by concurrency key; "" is the queue as a whole
}

// look reads the slots of the runs of a page that it has not looked at yet. A key
// that there is no room for counts as busy.
func (c *capacity) look(ctx context.Context, tx storage.Tx, env string, runs []run.Run) error {
	var wanted []storage.Key
	owner := map[storage.Key]slotOf{}
	add := func(concurrencyKey string, limit int) error {
		if _, known := c.free[concurrencyKey]; known || limit == 0 || len(wanted)+limit > maxPeeks {
			return nil
		}
		c.free[concurrencyKey] = nil
		first := int(c.luck * float64(limit))
		for i := range limit {
			slot := 1 + (first+i)%limit
			key, err := codec.QueueSlotKey(env, c.queue, concurrencyKey, slot)
			if err != nil {
				return err
			}
			wanted = append(wanted, key)
			owner[key] = slotOf{concurrencyKey, slot}
		}
		return nil
	}
	if err := add("", c.limits.Running); err != nil {
		return err
	}
	for i := range runs {
		if key := runs[i].ConcurrencyKey; key != "" {
			if err := add(key, c.limits.PerKey); err != nil {
				return err
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	held, err := tx.Peek(ctx, wanted)
	if err != nil {
		return err
	}
	for _, key := range wanted {
		if _, busy := held[key]; !busy {
			of := owner[key]
			c.free[of.concurrencyKey] = append(c.free[of.concurrencyKey], of.slot)
		}
	}
	return nil
}

// take takes the slots that a run needs; ok is false, and nothing is taken, if they
// are not free.
func (c *capacity) take(r *run.Run) (queueSlot, keySlot int, ok bool) {
	if c == nil {
		return 0, 0, true
	}
	whole, keyed := c.limits.Running > 0, c.limits.PerKey > 0 && r.ConcurrencyKey != ""
	if whole && len(c.free[""]) == 0 || keyed && len(c.free[r.ConcurrencyKey]) == 0 {
		return 0, 0, false
	}
	pop := func(key string) int {
		free := c.free[key]
		c.free[key] = free[1:]
		return free[0]
	}
	if whole {
		queueSlot = pop("")
	}
	if keyed {
		keySlot = pop(r.ConcurrencyKey)
	}
	return queueSlot, keySlot, true
}

// spent reports whether no run of the queue can be begun, whatever its key.
func (c *capacity) spent() bool { return c != nil && c.limits.Running > 0 && len(c.free[""]) == 0 }

// reclaimBatch is how many slots one transaction of reclaimSlots looks at.
const reclaimBatch = 100

// reclaimSlots deletes the slots whose leases are gone, and returns how many. No
// transaction of this package leaves one behind; it is for what others did, such as
// a run that was deleted by hand.
func (l *Lane) reclaimSlots(ctx context.Context) (int, error) {
	partition, err := codec.QueueSlotExpiryPartition(l.env)
	if err != nil {
		return 0, err
	}
	total := 0
	for resume := (storage.Resume{}); ; {
		page, _, err := storage.Transact(ctx, l.store, "slot.reclaim", func(ctx context.Context, tx storage.Tx) (reclaimed, error) {
			page, err := tx.Query(ctx, storage.Query{
				Index: storage.QueueSlotsByExpiry, Partition: partition, Until: storage.ServerNow(),
				Limit: reclaimBatch, Resume: resume, Lock: storage.Exclusive,
			})
			if err != nil {
				return reclaimed{}, err
			}
			return l.reclaimPage(ctx, tx, page)
		})
		if err != nil {
			return total, fmt.Errorf("lane: reclaim slots: %w", err)
		}
		total += page.deleted
		if resume = page.resume; resume.IsZero() {
			return total, nil
		}
	}
}

type reclaimed struct {
	deleted int
	resume  storage.Resume
}

// reclaimPage deletes the slots of a page whose leases are gone, and moves the others
// behind the end of their leases.
func (l *Lane) reclaimPage(ctx context.Context, tx storage.Tx, page storage.Page) (reclaimed, error) {
	out := reclaimed{resume: page.Resume}
	slots := map[storage.Key]codec.QueueSlot{}
	runs := map[storage.Key]storage.Key{}
	var wanted []storage.Key
	for _, rec := range page.Records {
		s, kind := codec.DecodeQueueSlot(rec)
		if kind != codec.Canonical {
			continue
		}
		key, err := codec.RunKey(l.env, s.RunID)
		if err != nil {
			return out, err
		}
		slots[rec.Key], runs[rec.Key] = s, key
		wanted = append(wanted, key)
	}
	if len(wanted) == 0 {
		return out, nil
	}
	found, err := tx.GetMany(ctx, wanted, storage.ReadOnly)
	if err != nil {
		return out, err
	}
	for _, rec := range page.Records {
		s, ours := slots[rec.Key]
		if !ours {
			continue
		}
		run, present := found[runs[rec.Key]]
		r, kind := codec.DecodeRun(run)
		switch {
		case present && kind == codec.Opaque:
			continue // nobody here can tell
		case present && kind == codec.Canonical && r.Lease != nil && r.Lease.Token == s.Token:
			s.Expires = r.Lease.Expires
			again, err := codec.EncodeQueueSlot(s)
			if err != nil {
				return out, err
			}
			if err := tx.Replace(ctx, again); err != nil {
				return out, err
			}
		default:
			if err := tx.Delete(ctx, rec.Key); err != nil {
				return out, err
			}
			out.deleted++
		}
	}
	return out, nil
}

// holds reports whether a slot's record belongs to the lease with the token.
func holds(rec storage.Record, token uuid.UUID) bool {
	s, kind := codec.DecodeQueueSlot(rec)
	return kind == codec.Canonical && s.Token == token
}
