-- Fragment: the whole document of the run r, its payload put back.
-- locks: none
-- index: none
CASE WHEN r.record_payload IS NULL THEN r.record_document
     ELSE pg_catalog.jsonb_set(r.record_document, ARRAY['value', 'payload'], r.record_payload) END
