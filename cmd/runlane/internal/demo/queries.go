package demo

// What the demo asks the database in plain SQL, past the driver: looks that must
// be cheap, and counts that do not trust the code that wrote the rows. The
// schema is that of migrations.DefaultSchema.
const (
	queryStatuses = `SELECT status, count(*) FROM runlane.runlane_runs GROUP BY status ORDER BY status`

	// One statement, so that both numbers are of one moment.
	queryLook = `SELECT count(*) FILTER (WHERE runs_by_retention_partition IS NOT NULL) AS ended,
  count(*) FILTER (WHERE runs_by_lease_expiry_partition IS NOT NULL AND lease_expires_at > clock_timestamp()
    AND record_document->'value'->>'lease_worker' = $1) AS held, clock_timestamp() AS at
FROM runlane.runlane_runs`

	queryEventTypes = `SELECT event_type, count(*) FROM runlane.runlane_record_run_events GROUP BY event_type ORDER BY event_type`

	queryEndedTwice = `SELECT count(*) FROM (SELECT run_id FROM runlane.runlane_record_run_events
WHERE event_type IN ('run.succeeded', 'run.failed', 'run.cancelled') GROUP BY run_id HAVING count(*) > 1) AS twice`

	queryHistory = `SELECT sequence, event_type, occurred_at FROM runlane.runlane_record_run_events
WHERE run_id = (SELECT run_id FROM runlane.runlane_record_run_events WHERE event_type = 'run.lease_expired' LIMIT 1) ORDER BY sequence`

	queryClock = `SELECT clock_timestamp()`

	queryServer = `SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'), current_setting('full_page_writes')`

	// The counters of the server, in which the own looks are included.
	queryCounters = `SELECT d.xact_commit, w.wal_bytes::bigint, w.wal_sync FROM pg_stat_database d, pg_stat_wal w WHERE d.datname = current_database()`
)
