-- Fragment: the whole document of the event r; a payload that it shares is its run's.
-- locks: none
-- index: the primary key of runs, for an event that shares its payload
CASE WHEN NOT r.payload_from_run THEN r.record_document
     ELSE pg_catalog.jsonb_set(r.record_document, ARRAY['value', 'event', 'payload'],
       (SELECT p.record_payload FROM {runs} p WHERE p.environment_key = r.environment_key AND p.run_id = r.run_id)) END
