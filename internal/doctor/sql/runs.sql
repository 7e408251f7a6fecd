-- The run that is or becomes due first, of up to $1 queues and priorities: one entry of
-- the index for each.
-- locks: none
-- index: runlane_runs_by_due
WITH RECURSIVE head (place, partition, sort, run_id) AS (
  (SELECT 1, r.runs_by_due_partition, r.runs_by_due_sort, r.run_id FROM {runs} r
   WHERE r.runs_by_due_partition IS NOT NULL
   ORDER BY r.runs_by_due_partition, r.runs_by_due_sort, r.run_id LIMIT 1)
  UNION ALL
  SELECT h.place + 1, n.partition, n.sort, n.run_id
  FROM head h CROSS JOIN LATERAL (
    SELECT r.runs_by_due_partition AS partition, r.runs_by_due_sort AS sort, r.run_id FROM {runs} r
    WHERE r.runs_by_due_partition > h.partition
    ORDER BY r.runs_by_due_partition, r.runs_by_due_sort, r.run_id LIMIT 1
  ) n
  WHERE h.place < $1::int
)
SELECT h.partition, h.sort, h.run_id, count(*) OVER (), clock_timestamp() FROM head h ORDER BY h.sort, h.partition LIMIT 1
