package schema

import "entgo.io/ent"

// RunEventIDOwner is the collection RunEventIdOwners. It is reserved for the
// compatibility of adapters; runlane itself writes nothing here.
type RunEventIDOwner struct{ ent.View }

// Mixin declares the record.
func (RunEventIDOwner) Mixin() []ent.Mixin {
	return []ent.Mixin{collection("run_event_id_owners")}
}

// RunCompletionWaitPresence is the collection RunCompletionWaitPresence: one
// small row for each run that a durable wait ever waited for.
type RunCompletionWaitPresence struct{ ent.View }

// Mixin declares the record.
func (RunCompletionWaitPresence) Mixin() []ent.Mixin {
	return []ent.Mixin{collection("run_completion_wait_presence")}
}

// IdempotencyOwner is the collection IdempotencyOwners: which run a task's
// idempotency key belongs to, and until when.
type IdempotencyOwner struct{ ent.View }

// Mixin declares the record and its named index.
func (IdempotencyOwner) Mixin() []ent.Mixin {
	return []ent.Mixin{collection("idempotency_owners",
		// Reclaiming owners that have expired.
		"idempotency_owners_by_expiry",
	)}
}

// SingletonOwner is the collection SingletonOwners: the one active run of a
// task's singleton key.
type SingletonOwner struct{ ent.View }

// Mixin declares the record.
func (SingletonOwner) Mixin() []ent.Mixin {
	return []ent.Mixin{collection("singleton_owners")}
}

// QueueSlot is the collection QueueSlots: one row for each held slot of a
// queue's capacity.
type QueueSlot struct{ ent.View }

// Mixin declares the record and its named index.
func (QueueSlot) Mixin() []ent.Mixin {
	return []ent.Mixin{collection("queue_slots",
		// Reclaiming reservations whose holder died.
		"queue_slots_by_expiry",
	)}
}
