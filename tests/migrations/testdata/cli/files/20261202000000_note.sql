-- Modify "runlane_runs" table
ALTER TABLE "runlane_runs" ADD COLUMN "note" text NULL COLLATE "C";
