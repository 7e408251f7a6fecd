package schema

import (
	"encoding/json"

	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
)

// Run is the collection Runs: one row is the whole current state of one run.
//
// The operator columns repeat what a canonical document says, as plain values
// and not as encoded keys. They are all null for a document that is opaque or a
// tombstone, which is how such a run stays out of operator results.
type Run struct{ ent.View }

// Mixin declares the record and its named indexes.
func (Run) Mixin() []ent.Mixin {
	return []ent.Mixin{record{
		table: "runlane_runs",
		key:   [2]string{"environment_key", "run_id"},
		indexes: []string{
			// Claiming: the runnable runs of one queue and priority, up to now.
			"runs_by_due",
			// Lease recovery: the runs whose worker has stopped renewing.
			"runs_by_lease_expiry",
			// The end of a run: whom to release of those that wait for it.
			"runs_waiting_for_completion",
			// Pruning, and the sweep that mends missed releases: runs by terminal time.
			"runs_by_retention",
		},
	}}
}

// Fields declares the payload and the operator columns.
func (Run) Fields() []ent.Field {
	return []ent.Field{
		// SQL NULL is "no separated payload"; JSON null is a payload.
		field.Bytes("record_payload").GoType(json.RawMessage{}).SchemaType(jsonbType).Optional(),
		optionalText("task"),
		optionalText("queue"),
		optionalText("status"),
		field.Int16("priority").Optional().Nillable(),
		optionalTime("created_at"),
		optionalTime("updated_at"),
		optionalTime("due_at"),
		optionalTime("lease_expires_at"),
		optionalText("idempotency_key"),
		optionalText("singleton_key"),
		optionalText("concurrency_key"),
		optionalText("source_type"),
		optionalText("source_run_id"),
		optionalText("schedule_id"),
	}
}

// Indexes declares the operator indexes: a closed list, because each one is
// paid for by every transition of every run. None is on the lease expiry, so
// that a heartbeat can be a heap-only update.
func (Run) Indexes() []ent.Index {
	return []ent.Index{
		// ListRuns by creation time, both directions.
		index.Fields("environment_key", "created_at", "run_id").
			StorageKey("runlane_runs_created").
			Annotations(entsql.IndexWhere("created_at IS NOT NULL")),
		// ListRuns of one status by creation time, both directions; CountRuns.
		index.Fields("environment_key", "status", "created_at", "run_id").
			StorageKey("runlane_runs_status").
			Annotations(entsql.IndexWhere("status IS NOT NULL")),
		// ListRuns by the time of the last change, both directions.
		index.Fields("environment_key", "updated_at", "run_id").
			StorageKey("runlane_runs_updated").
			Annotations(entsql.IndexWhere("updated_at IS NOT NULL")),
		// ListRuns by due time, both directions.
		index.Fields("environment_key", "due_at", "run_id").
			StorageKey("runlane_runs_due_at").
			Annotations(entsql.IndexWhere("due_at IS NOT NULL")),
		// No read, a guard: at most one active run of a singleton key, even if its
		// SingletonOwners record was lost. It also names that run when it refuses.
		index.Fields("environment_key", "task", "singleton_key").
			Unique().
			StorageKey("runlane_runs_active_singleton").
			Annotations(entsql.IndexWhere("singleton_key IS NOT NULL AND status IN ('queued', 'scheduled', 'running', " +
				"'released', 'retrying', 'waiting', 'cancellation_requested')")),
	}
}

// Annotations declares that the operator columns are there together or not at all.
func (Run) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{
		"runlane_runs_operator_columns": "num_nonnulls(task, queue, status, priority, created_at, updated_at) IN (0, 6) AND " +
			"(status IS NOT NULL OR num_nonnulls(due_at, lease_expires_at, idempotency_key, singleton_key, " +
			"concurrency_key, source_type, source_run_id, schedule_id) = 0)",
	})}
}
