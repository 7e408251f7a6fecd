-- atlas:txmode none

-- Create index "runlane_runs_by_note" to table: "runlane_runs"
CREATE INDEX CONCURRENTLY "runlane_runs_by_note" ON "runlane_runs" ("note", "run_id");
