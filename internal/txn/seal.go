package txn

import "github.com/seed4391e180/runlane/storage"

// sealPlan is what Now asks of the database: the locks of everything read and
// staged, exclusive unless the key was promised to be only read (two shared
// holders that both go on to write can only fail), and the expectations of
// everything read that is not locked already.
func (a *attempt) sealPlan() *Plan {
	plan := &Plan{}
	for key, r := range a.reads {
		if r.locked {
			continue
		}
		plan.Expect = append(plan.Expect, Expectation{Key: key, Version: r.rec.Version, Hold: !r.readOnly})
		a.lock(plan, key, r.readOnly)
	}
	for key := range a.staged {
		if a.reads[key] == nil {
			plan.Expect = append(plan.Expect, Expectation{Key: key}) // created blindly
			a.lock(plan, key, false)
		}
	}
	plan.sort()
	return plan
}

// plan is what committing asks of the database: the net effect of what was
// staged, the expectations that nothing has settled yet, and the missing locks.
func (a *attempt) plan() *Plan {
	plan := &Plan{Appends: a.appends}
	if !a.quiet {
		plan.Topics = a.topics
	}
	for key, s := range a.staged {
		if m, ok := a.mutation(key, s); ok {
			plan.Mutations = append(plan.Mutations, m)
			a.lock(plan, key, false)
		} else if a.reads[key] == nil {
			// Created and deleted again without a read: the key must have been absent.
			plan.Expect = append(plan.Expect, Expectation{Key: key})
			a.lock(plan, key, false)
		}
	}
	written := make(map[storage.Key]bool, len(plan.Mutations))
	for i := range plan.Mutations {
		written[plan.Mutations[i].Key] = true
	}
	for key, r := range a.reads {
		if r.locked || written[key] || a.sealed {
			continue
		}
		plan.Expect = append(plan.Expect, Expectation{Key: key, Version: r.rec.Version})
		a.lock(plan, key, (r.readOnly || a.number == 1) && !a.appendsTo(key))
	}
	plan.sort()
	return plan
}

// mutation is the net effect of one staged key; ok is false if there is none.
func (a *attempt) mutation(key storage.Key, s *stage) (m Mutation, ok bool) {
	m = Mutation{Key: key, Record: s.rec}
	if r := a.reads[key]; r != nil && !r.rec.Version.IsZero() {
		m.Before, m.Op = r.rec, Update
		if s.deleted {
			m.Op = Delete
		}
		return m, true
	}
	m.Op = Insert
	return m, !s.deleted
}

// lock adds the lock of key unless the attempt holds it already.
func (a *attempt) lock(plan *Plan, key storage.Key, shared bool) {
	if heldShared, held := a.held[key]; held && (!heldShared || shared) {
		return
	}
	plan.Locks = append(plan.Locks, Lock{Key: key, Shared: shared})
}

// admission is what the next attempt locks before its callback runs: everything
// that this one read or wrote, except what it knew only through an exclusive
// query, which is some other worker's business by then.
func (a *attempt) admission() *Plan {
	plan := &Plan{}
	locked := make(map[storage.Key]bool)
	for key, r := range a.reads {
		if _, exclusive := a.carried[key]; exclusive {
			continue
		}
		locked[key] = true
		plan.Locks = append(plan.Locks, Lock{Key: key, Shared: r.readOnly && a.staged[key] == nil})
	}
	for key, s := range a.staged {
		if _, exclusive := a.carried[key]; exclusive {
			continue
		}
		if !locked[key] {
			plan.Locks = append(plan.Locks, Lock{Key: key})
		}
		if m, ok := a.mutation(key, s); ok {
			plan.Mutations = append(plan.Mutations, m)
		}
	}
	plan.sort()
	return plan
}
