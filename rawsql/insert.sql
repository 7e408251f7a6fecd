-- One group of a commit: new records of one collection in one environment.
-- $1 environment, $2 ids, $3 versions, $4 documents, $5 microseconds after the commit, then the index pairs
-- locks: the new rows
-- index: the primary key decides what exists
{group}_rows AS MATERIALIZED (
  SELECT u.*, {filled} AS document
  FROM clock, unnest($2::text[], $3::bigint[], $4::text[], $5::bigint[]{arrays}) AS u(id, version, document_text, later{names})
),
{group} AS (
  INSERT INTO {table} ({partition}, {id}, record_version, record_document{columns})
  SELECT {environment}, u.id, u.version, u.document{values}
  FROM {group}_rows u, clock
  WHERE {after}
  ON CONFLICT ({partition}, {id}) DO NOTHING
  RETURNING 1
)
