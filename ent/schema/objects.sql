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
