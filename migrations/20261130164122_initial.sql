-- Old workers may run while this file is applied: it is the first version, there are none.

-- Create "runlane_record_idempotency_owners" table
CREATE TABLE "runlane_record_idempotency_owners" (
  "partition_key" text NOT NULL COLLATE "C",
  "record_id" text NOT NULL COLLATE "C",
  "record_version" bigint NOT NULL,
  "record_document" jsonb NOT NULL,
  "idempotency_owners_by_expiry_partition" text NULL COLLATE "C",
  "idempotency_owners_by_expiry_sort" text NULL COLLATE "C",
  PRIMARY KEY ("partition_key", "record_id"),
  CONSTRAINT "idempotency_owners_by_expiry_pair" CHECK ((idempotency_owners_by_expiry_partition IS NULL) = (idempotency_owners_by_expiry_sort IS NULL))
);
-- Create index "runlane_idempotency_owners_by_expiry" to table: "runlane_record_idempotency_owners"
CREATE INDEX "runlane_idempotency_owners_by_expiry" ON "runlane_record_idempotency_owners" ("idempotency_owners_by_expiry_partition", "idempotency_owners_by_expiry_sort", "record_id") WHERE (idempotency_owners_by_expiry_partition IS NOT NULL);
-- Create "runlane_record_observation_heads" table
CREATE TABLE "runlane_record_observation_heads" (
  "partition_key" text NOT NULL COLLATE "C",
  "record_id" text NOT NULL COLLATE "C",
  "record_version" bigint NOT NULL,
  "record_document" jsonb NOT NULL,
  PRIMARY KEY ("partition_key", "record_id")
);
-- Create "runlane_record_observation_records" table
CREATE TABLE "runlane_record_observation_records" (
  "partition_key" text NOT NULL COLLATE "C",
  "record_id" text NOT NULL COLLATE "C",
  "record_version" bigint NOT NULL,
  "record_document" jsonb NOT NULL,
  "observations_by_position_partition" text NULL COLLATE "C",
  "observations_by_position_sort" text NULL COLLATE "C",
  PRIMARY KEY ("partition_key", "record_id"),
  CONSTRAINT "observations_by_position_pair" CHECK ((observations_by_position_partition IS NULL) = (observations_by_position_sort IS NULL))
);
-- Create index "runlane_observations_by_position" to table: "runlane_record_observation_records"
CREATE INDEX "runlane_observations_by_position" ON "runlane_record_observation_records" ("observations_by_position_partition", "observations_by_position_sort", "record_id") WHERE (observations_by_position_partition IS NOT NULL);
-- Create "runlane_record_queue_slots" table
CREATE TABLE "runlane_record_queue_slots" (
  "partition_key" text NOT NULL COLLATE "C",
  "record_id" text NOT NULL COLLATE "C",
  "record_version" bigint NOT NULL,
  "record_document" jsonb NOT NULL,
  "queue_slots_by_expiry_partition" text NULL COLLATE "C",
  "queue_slots_by_expiry_sort" text NULL COLLATE "C",
  PRIMARY KEY ("partition_key", "record_id"),
  CONSTRAINT "queue_slots_by_expiry_pair" CHECK ((queue_slots_by_expiry_partition IS NULL) = (queue_slots_by_expiry_sort IS NULL))
);
-- Create index "runlane_queue_slots_by_expiry" to table: "runlane_record_queue_slots"
CREATE INDEX "runlane_queue_slots_by_expiry" ON "runlane_record_queue_slots" ("queue_slots_by_expiry_partition", "queue_slots_by_expiry_sort", "record_id") WHERE (queue_slots_by_expiry_partition IS NOT NULL);
-- Create "runlane_runs" table
CREATE TABLE "runlane_runs" (
  "environment_key" text NOT NULL COLLATE "C",
  "run_id" text NOT NULL COLLATE "C",
  "record_version" bigint NOT NULL,
  "record_document" jsonb NOT NULL,
  "runs_by_due_partition" text NULL COLLATE "C",
  "runs_by_due_sort" text NULL COLLATE "C",
  "runs_by_lease_expiry_partition" text NULL COLLATE "C",
  "runs_by_lease_expiry_sort" text NULL COLLATE "C",
  "runs_waiting_for_completion_partition" text NULL COLLATE "C",
  "runs_waiting_for_completion_sort" text NULL COLLATE "C",
  "runs_by_retention_partition" text NULL COLLATE "C",
  "runs_by_retention_sort" text NULL COLLATE "C",
  "record_payload" jsonb NULL,
  "task" text NULL COLLATE "C",
  "queue" text NULL COLLATE "C",
  "status" text NULL COLLATE "C",
  "priority" smallint NULL,
  "created_at" timestamptz NULL,
  "updated_at" timestamptz NULL,
  "due_at" timestamptz NULL,
  "lease_expires_at" timestamptz NULL,
  "idempotency_key" text NULL COLLATE "C",
  "singleton_key" text NULL COLLATE "C",
  "concurrency_key" text NULL COLLATE "C",
  "source_type" text NULL COLLATE "C",
  "source_run_id" text NULL COLLATE "C",
  "schedule_id" text NULL COLLATE "C",
  PRIMARY KEY ("environment_key", "run_id"),
  CONSTRAINT "runlane_runs_operator_columns" CHECK ((num_nonnulls(task, queue, status, priority, created_at, updated_at) = ANY (ARRAY[0, 6])) AND ((status IS NOT NULL) OR (num_nonnulls(due_at, lease_expires_at, idempotency_key, singleton_key, concurrency_key, source_type, source_run_id, schedule_id) = 0))),
  CONSTRAINT "runs_by_due_pair" CHECK ((runs_by_due_partition IS NULL) = (runs_by_due_sort IS NULL)),
  CONSTRAINT "runs_by_lease_expiry_pair" CHECK ((runs_by_lease_expiry_partition IS NULL) = (runs_by_lease_expiry_sort IS NULL)),
  CONSTRAINT "runs_by_retention_pair" CHECK ((runs_by_retention_partition IS NULL) = (runs_by_retention_sort IS NULL)),
  CONSTRAINT "runs_waiting_for_completion_pair" CHECK ((runs_waiting_for_completion_partition IS NULL) = (runs_waiting_for_completion_sort IS NULL))
);
-- Create index "runlane_runs_active_singleton" to table: "runlane_runs"
CREATE UNIQUE INDEX "runlane_runs_active_singleton" ON "runlane_runs" ("environment_key", "task", "singleton_key") WHERE ((singleton_key IS NOT NULL) AND (status = ANY (ARRAY['queued'::text, 'scheduled'::text, 'running'::text, 'released'::text, 'retrying'::text, 'waiting'::text, 'cancellation_requested'::text])));
-- Create index "runlane_runs_by_due" to table: "runlane_runs"
CREATE INDEX "runlane_runs_by_due" ON "runlane_runs" ("runs_by_due_partition", "runs_by_due_sort", "run_id") WHERE (runs_by_due_partition IS NOT NULL);
-- Create index "runlane_runs_by_lease_expiry" to table: "runlane_runs"
CREATE INDEX "runlane_runs_by_lease_expiry" ON "runlane_runs" ("runs_by_lease_expiry_partition", "runs_by_lease_expiry_sort", "run_id") WHERE (runs_by_lease_expiry_partition IS NOT NULL);
-- Create index "runlane_runs_by_retention" to table: "runlane_runs"
CREATE INDEX "runlane_runs_by_retention" ON "runlane_runs" ("runs_by_retention_partition", "runs_by_retention_sort", "run_id") WHERE (runs_by_retention_partition IS NOT NULL);
-- Create index "runlane_runs_created" to table: "runlane_runs"
CREATE INDEX "runlane_runs_created" ON "runlane_runs" ("environment_key", "created_at", "run_id") WHERE (created_at IS NOT NULL);
-- Create index "runlane_runs_due_at" to table: "runlane_runs"
CREATE INDEX "runlane_runs_due_at" ON "runlane_runs" ("environment_key", "due_at", "run_id") WHERE (due_at IS NOT NULL);
-- Create index "runlane_runs_status" to table: "runlane_runs"
CREATE INDEX "runlane_runs_status" ON "runlane_runs" ("environment_key", "status", "created_at", "run_id") WHERE (status IS NOT NULL);
-- Create index "runlane_runs_updated" to table: "runlane_runs"
CREATE INDEX "runlane_runs_updated" ON "runlane_runs" ("environment_key", "updated_at", "run_id") WHERE (updated_at IS NOT NULL);
-- Create index "runlane_runs_waiting_for_completion" to table: "runlane_runs"
CREATE INDEX "runlane_runs_waiting_for_completion" ON "runlane_runs" ("runs_waiting_for_completion_partition", "runs_waiting_for_completion_sort", "run_id") WHERE (runs_waiting_for_completion_partition IS NOT NULL);
-- Create "runlane_record_run_completion_wait_presence" table
CREATE TABLE "runlane_record_run_completion_wait_presence" (
  "partition_key" text NOT NULL COLLATE "C",
  "record_id" text NOT NULL COLLATE "C",
  "record_version" bigint NOT NULL,
  "record_document" jsonb NOT NULL,
  PRIMARY KEY ("partition_key", "record_id")
);
-- Create "runlane_record_run_events" table
CREATE TABLE "runlane_record_run_events" (
  "environment_key" text NOT NULL COLLATE "C",
  "record_id" text NOT NULL COLLATE "C",
  "record_version" bigint NOT NULL,
  "record_document" jsonb NOT NULL,
  "run_events_by_sequence_partition" text NULL COLLATE "C",
  "run_events_by_sequence_sort" text NULL COLLATE "C",
  "payload_from_run" boolean NOT NULL DEFAULT false,
  "sequence_index_native" boolean NOT NULL DEFAULT false,
  "run_id" text NULL COLLATE "C",
  "sequence" bigint NULL,
  "event_type" text NULL COLLATE "C",
  "occurred_at" timestamptz NULL,
  PRIMARY KEY ("environment_key", "record_id"),
  CONSTRAINT "run_events_by_sequence_pair" CHECK ((run_events_by_sequence_partition IS NULL) = (run_events_by_sequence_sort IS NULL)),
  CONSTRAINT "runlane_run_events_one_path" CHECK ((NOT sequence_index_native) OR ((run_id IS NOT NULL) AND (run_events_by_sequence_partition IS NULL) AND (run_events_by_sequence_sort IS NULL))),
  CONSTRAINT "runlane_run_events_operator_columns" CHECK (num_nonnulls(run_id, sequence, event_type, occurred_at) = ANY (ARRAY[0, 4])),
  CONSTRAINT "runlane_run_events_shared_payload" CHECK ((NOT payload_from_run) OR sequence_index_native)
);
-- Create index "runlane_run_events_by_sequence" to table: "runlane_record_run_events"
CREATE INDEX "runlane_run_events_by_sequence" ON "runlane_record_run_events" ("run_events_by_sequence_partition", "run_events_by_sequence_sort", "record_id") WHERE (run_events_by_sequence_partition IS NOT NULL);
-- Create index "runlane_run_events_native" to table: "runlane_record_run_events"
CREATE INDEX "runlane_run_events_native" ON "runlane_record_run_events" ("environment_key", "run_id", "sequence", "record_id") WHERE sequence_index_native;
-- Create index "runlane_run_events_occurred" to table: "runlane_record_run_events"
CREATE INDEX "runlane_run_events_occurred" ON "runlane_record_run_events" ("environment_key", "occurred_at", "record_id") WHERE (occurred_at IS NOT NULL);
-- Create index "runlane_run_events_type" to table: "runlane_record_run_events"
CREATE INDEX "runlane_run_events_type" ON "runlane_record_run_events" ("environment_key", "event_type", "occurred_at", "record_id") WHERE (event_type IS NOT NULL);
-- Create "runlane_record_run_event_id_owners" table
CREATE TABLE "runlane_record_run_event_id_owners" (
  "partition_key" text NOT NULL COLLATE "C",
  "record_id" text NOT NULL COLLATE "C",
  "record_version" bigint NOT NULL,
  "record_document" jsonb NOT NULL,
  PRIMARY KEY ("partition_key", "record_id")
);
-- Create "runlane_record_schedule_cursors" table
CREATE TABLE "runlane_record_schedule_cursors" (
  "partition_key" text NOT NULL COLLATE "C",
  "record_id" text NOT NULL COLLATE "C",
  "record_version" bigint NOT NULL,
  "record_document" jsonb NOT NULL,
  PRIMARY KEY ("partition_key", "record_id")
);
-- Create "runlane_record_schedule_occurrences" table
CREATE TABLE "runlane_record_schedule_occurrences" (
  "partition_key" text NOT NULL COLLATE "C",
  "record_id" text NOT NULL COLLATE "C",
  "record_version" bigint NOT NULL,
  "record_document" jsonb NOT NULL,
  "schedule_occurrences_by_fire_time_partition" text NULL COLLATE "C",
  "schedule_occurrences_by_fire_time_sort" text NULL COLLATE "C",
  PRIMARY KEY ("partition_key", "record_id"),
  CONSTRAINT "schedule_occurrences_by_fire_time_pair" CHECK ((schedule_occurrences_by_fire_time_partition IS NULL) = (schedule_occurrences_by_fire_time_sort IS NULL))
);
-- Create index "runlane_schedule_occurrences_by_fire_time" to table: "runlane_record_schedule_occurrences"
CREATE INDEX "runlane_schedule_occurrences_by_fire_time" ON "runlane_record_schedule_occurrences" ("schedule_occurrences_by_fire_time_partition", "schedule_occurrences_by_fire_time_sort", "record_id") WHERE (schedule_occurrences_by_fire_time_partition IS NOT NULL);
-- Create "runlane_record_singleton_owners" table
CREATE TABLE "runlane_record_singleton_owners" (
  "partition_key" text NOT NULL COLLATE "C",
  "record_id" text NOT NULL COLLATE "C",
  "record_version" bigint NOT NULL,
  "record_document" jsonb NOT NULL,
  PRIMARY KEY ("partition_key", "record_id")
);

-- Versions of all records of all tables. A version is an opaque fence: it never
-- comes back, so the sequence does not cycle; rollbacks leave gaps.
CREATE SEQUENCE "runlane_record_versions" AS bigint INCREMENT BY 1 MINVALUE 1 START WITH 1 NO CYCLE;

-- Ends the calling statement, and with it the transaction, unless a check of a
-- write holds. The client replays on SQLSTATE 40001 and finds the reason in
-- DETAIL. It reads and changes nothing, yet is VOLATILE: the planner may fold or
-- leave out a call of anything less, and a check that does not run lets a bad
-- write through. RAISE, not ASSERT: a setting can turn assertions off.
CREATE FUNCTION "runlane_assert_record_write"("valid" boolean, "error_code" text) RETURNS boolean
  LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT
  SET search_path = ''
AS $$
BEGIN
  IF valid IS NOT TRUE THEN
    RAISE EXCEPTION 'runlane: record write check failed'
      USING ERRCODE = '40001', DETAIL = coalesce(error_code, 'unnamed check');
  END IF;
  RETURN true;
END
$$;

-- A run is updated at each of its transitions. Room in the page (fillfactor)
-- lets an update that touches no index stay in its page (heap-only); a claim
-- steps over the dead index entries of every transition, so they are vacuumed
-- after one row in a hundred, not one in five.
ALTER TABLE "runlane_runs" SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.02);

-- Rows that come and go with each run: same size for ever, new rows every second.
ALTER TABLE "runlane_record_singleton_owners" SET (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
ALTER TABLE "runlane_record_idempotency_owners" SET (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
ALTER TABLE "runlane_record_queue_slots" SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200);

-- Few rows, each updated again and again, in a column that no index has: half a
-- page of room keeps the versions of a row in its page. The threshold is a count,
-- since a share of a few rows is nothing.
ALTER TABLE "runlane_record_observation_heads" SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
ALTER TABLE "runlane_record_schedule_cursors" SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Rows that are appended, read and pruned, hardly ever updated. Vacuum after one
-- new row in fifty keeps the visibility map fresh and spreads the freezing.
ALTER TABLE "runlane_record_run_events" SET (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE "runlane_record_observation_records" SET (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_scale_factor = 0.02);
