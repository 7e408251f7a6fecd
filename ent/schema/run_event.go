package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
)

// RunEvent is the collection RunEvents: one row is one lifecycle event of a run,
// keyed by the event's UUID.
//
// A canonical event is found through its typed run_id and sequence
// (sequence_index_native) and leaves the generic pair of RunEventsBySequence
// null; an opaque one has the generic pair. There is no foreign key to the run:
// runs and events are retained independently.
type RunEvent struct{ ent.View }

// Mixin declares the record and its named index.
func (RunEvent) Mixin() []ent.Mixin {
	return []ent.Mixin{record{
		table: "runlane_record_run_events",
		key:   [2]string{"environment_key", "record_id"},
		indexes: []string{
			// The generic path of a run's history: events whose document is opaque.
			"run_events_by_sequence",
		},
	}}
}

// Fields declares the native sequence path and the operator columns.
func (RunEvent) Fields() []ent.Field {
	return []ent.Field{
		// The run's payload column holds the payload of this Created event.
		field.Bool("payload_from_run").Annotations(entsql.DefaultExpr("false")),
		field.Bool("sequence_index_native").Annotations(entsql.DefaultExpr("false")),
		// Encoded like the run's own key column, so that the two can be joined.
		optionalText("run_id"),
		field.Int64("sequence").Optional().Nillable(),
		optionalText("event_type"),
		optionalTime("occurred_at"),
	}
}

// Indexes declares the native sequence path and the operator indexes.
func (RunEvent) Indexes() []ent.Index {
	return []ent.Index{
		// RunEventsBySequence of canonical events; ListEvents of one run by sequence.
		// Not unique: the contract does not promise one event per sequence number.
		index.Fields("environment_key", "run_id", "sequence", "record_id").
			StorageKey("runlane_run_events_native").
			Annotations(entsql.IndexWhere("sequence_index_native")),
		// ListEvents of an environment by time of occurrence, both directions.
		index.Fields("environment_key", "occurred_at", "record_id").
			StorageKey("runlane_run_events_occurred").
			Annotations(entsql.IndexWhere("occurred_at IS NOT NULL")),
		// ListEvents of an environment with an event type, by time of occurrence.
		index.Fields("environment_key", "event_type", "occurred_at", "record_id").
			StorageKey("runlane_run_events_type").
			Annotations(entsql.IndexWhere("event_type IS NOT NULL")),
	}
}

// Annotations declares the relations between the path columns.
func (RunEvent) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{
		"runlane_run_events_operator_columns": "num_nonnulls(run_id, sequence, event_type, occurred_at) IN (0, 4)",
		"runlane_run_events_one_path": "NOT sequence_index_native OR (run_id IS NOT NULL AND " +
			"run_events_by_sequence_partition IS NULL AND run_events_by_sequence_sort IS NULL)",
		"runlane_run_events_shared_payload": "NOT payload_from_run OR sequence_index_native",
	})}
}
