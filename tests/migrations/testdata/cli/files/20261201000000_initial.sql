-- Create "runlane_runs" table
CREATE TABLE "runlane_runs" (
  "environment_key" text NOT NULL COLLATE "C",
  "run_id" text NOT NULL COLLATE "C",
  "record_document" jsonb NOT NULL,
  PRIMARY KEY ("environment_key", "run_id")
);

-- Versions of all records.
CREATE SEQUENCE "runlane_record_versions" AS bigint INCREMENT BY 1 MINVALUE 1 START WITH 1 NO CYCLE;

CREATE FUNCTION "runlane_assert_record_write"("valid" boolean, "error_code" text) RETURNS boolean
  LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT
  SET search_path = ''
AS $$
BEGIN
  IF valid IS NOT TRUE THEN
    RAISE EXCEPTION 'refused' USING ERRCODE = '40001', DETAIL = coalesce(error_code, 'unnamed; check');
  END IF;
  RETURN true;
END
$$;

ALTER TABLE "runlane_runs" SET (fillfactor = 80);
