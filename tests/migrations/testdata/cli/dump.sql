--
-- A database to which the Atlas CLI has applied the first three files beside this one,
-- as pg_dump prints it. It is made by hand from what the CLI is known to write: the
-- tables are those that the files make, the ledger is the CLI's table, with a row of
-- its for each file. In a complete row error and error_stmt are empty, partial_hashes is
-- JSON's null, and the hash is that of atlas.sum. The file marked txmode none has a row
-- like the others.
--

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: runlane; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA runlane;


--
-- Name: runlane_assert_record_write(boolean, text); Type: FUNCTION; Schema: runlane; Owner: -
--

CREATE FUNCTION runlane.runlane_assert_record_write(valid boolean, error_code text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO ''
    AS $$
BEGIN
  IF valid IS NOT TRUE THEN
    RAISE EXCEPTION 'refused' USING ERRCODE = '40001', DETAIL = coalesce(error_code, 'unnamed; check');
  END IF;
  RETURN true;
END
$$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: atlas_schema_revisions; Type: TABLE; Schema: runlane; Owner: -
--

CREATE TABLE runlane.atlas_schema_revisions (
    version character varying NOT NULL,
    description character varying NOT NULL,
    type bigint DEFAULT 2 NOT NULL,
    applied bigint DEFAULT 0 NOT NULL,
    total bigint DEFAULT 0 NOT NULL,
    executed_at timestamp with time zone NOT NULL,
    execution_time bigint NOT NULL,
    error text,
    error_stmt text,
    hash character varying NOT NULL,
    partial_hashes jsonb,
    operator_version character varying NOT NULL
);


--
-- Name: runlane_record_versions; Type: SEQUENCE; Schema: runlane; Owner: -
--

CREATE SEQUENCE runlane.runlane_record_versions
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: runlane_runs; Type: TABLE; Schema: runlane; Owner: -
--

CREATE TABLE runlane.runlane_runs (
    environment_key text NOT NULL COLLATE pg_catalog."C",
    run_id text NOT NULL COLLATE pg_catalog."C",
    record_document jsonb NOT NULL,
    note text COLLATE pg_catalog."C"
)
WITH (fillfactor='80');


--
-- Data for Name: atlas_schema_revisions; Type: TABLE DATA; Schema: runlane; Owner: -
--

INSERT INTO runlane.atlas_schema_revisions VALUES ('20261201000000', 'initial', 2, 4, 4, '2026-12-01 09:30:00.09375+00', 8417233, '', '', 'VZNme2pokm3h7OxK9+Hd1PM0fPIGndx2WBvC+qAwEEY=', 'null', 'Atlas CLI v1.2.3');
INSERT INTO runlane.atlas_schema_revisions VALUES ('20261202000000', 'note', 2, 1, 1, '2026-12-01 09:30:00.15625+00', 1204519, '', '', 'ZHDJde0pcaQqLIs2KYcJr0mDqZh21Etz56LUZB9dv1E=', 'null', 'Atlas CLI v1.2.3');
INSERT INTO runlane.atlas_schema_revisions VALUES ('20261203000000', 'by_note', 2, 1, 1, '2026-12-01 09:30:00.28125+00', 1938417, '', '', '72o8iQBbXmP7pXvEPcB3tnvoG8xoSedBv4nEMeKB9JI=', 'null', 'Atlas CLI v1.2.3');


--
-- Data for Name: runlane_runs; Type: TABLE DATA; Schema: runlane; Owner: -
--

INSERT INTO runlane.runlane_runs VALUES ('env', 'r1', '{"n": 1}', NULL);
INSERT INTO runlane.runlane_runs VALUES ('env', 'r2', '{"n": 2}', 'a note');


--
-- Name: runlane_record_versions; Type: SEQUENCE SET; Schema: runlane; Owner: -
--

SELECT pg_catalog.setval('runlane.runlane_record_versions', 1, false);


--
-- Name: atlas_schema_revisions atlas_schema_revisions_pkey; Type: CONSTRAINT; Schema: runlane; Owner: -
--

ALTER TABLE ONLY runlane.atlas_schema_revisions
    ADD CONSTRAINT atlas_schema_revisions_pkey PRIMARY KEY (version);


--
-- Name: runlane_runs runlane_runs_pkey; Type: CONSTRAINT; Schema: runlane; Owner: -
--

ALTER TABLE ONLY runlane.runlane_runs
    ADD CONSTRAINT runlane_runs_pkey PRIMARY KEY (environment_key, run_id);


--
-- Name: runlane_runs_by_note; Type: INDEX; Schema: runlane; Owner: -
--

CREATE INDEX runlane_runs_by_note ON runlane.runlane_runs USING btree (note, run_id);
