package schema

import "entgo.io/ent"

// ScheduleOccurrence is the collection ScheduleOccurrences: one row for each
// fire of a schedule that was turned into a run.
type ScheduleOccurrence struct{ ent.View }

// Mixin declares the record and its named index.
func (ScheduleOccurrence) Mixin() []ent.Mixin {
	return []ent.Mixin{collection("schedule_occurrences",
		// The history of one schedule, and its pruning.
		"schedule_occurrences_by_fire_time",
	)}
}

// ScheduleCursor is the collection ScheduleCursors: the latest fire time that
// was considered, per schedule.
type ScheduleCursor struct{ ent.View }

// Mixin declares the record.
func (ScheduleCursor) Mixin() []ent.Mixin {
	return []ent.Mixin{collection("schedule_cursors")}
}
