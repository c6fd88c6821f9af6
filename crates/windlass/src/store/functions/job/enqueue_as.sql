-- The hot way in for a caller of the API: a whole request's transaction in one statement. Takes the role of the api and the tenant
-- for the rest of the transaction, enqueues (which refuses another tenant's job), writes the audit row, and answers since when the job is there.
--
-- Runs with the rights of whoever calls it, so that it can take the role, and is left as soon as the statement's own transaction ends.
-- By steps (begin, four settings, enqueue, look, record, commit) the same took about 790 us of the server's CPU, so about 445; the plain
-- enqueue takes 315 (pgbench, 8 clients, medians of 5). Waiting for locks is what could take long here, hence lock_timeout:
-- unlike statement_timeout it can be set within the statement that it is for.
create or replace function windlass.enqueue_as(
  tenant uuid, job uuid, lane integer, max_attempts smallint, payload jsonb, extra jsonb, patience_ms integer,
  for_tenant uuid, by_actor text, by_role text, from_address text, request_id text, act text, target text, outcome text, before jsonb, after jsonb)
returns timestamptz
language plpgsql
as $$
begin
  perform pg_catalog.set_config('role', 'windlass_api', true),
          pg_catalog.set_config('windlass.tenant_id', pg_catalog.uuid_out(for_tenant)::pg_catalog.text, true),
          pg_catalog.set_config('windlass.audited', 'on', true),
          pg_catalog.set_config('lock_timeout', pg_catalog.int4out(patience_ms)::pg_catalog.text, true);
  perform windlass.enqueue_routed($1, $2, $3, $4, $5, $6);
  perform windlass.record_audit($8, $9, $10, $11, $12, $13, $14, $15, $16, $17);
  return pg_catalog.statement_timestamp();
end
$$;
