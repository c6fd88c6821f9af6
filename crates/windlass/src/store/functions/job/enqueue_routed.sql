-- The hot way in: the caller (our Rust code) has checked the payload and holds the lane, and the job has no guard.
-- No SET clause and no unqualified name or operator, so the caller's search_path cannot reach it; changing
-- search_path and back cost about 20 of 145 us of the plain door in one run on PostgreSQL 15, on a busy machine.
-- Three plain inserts; whether they cost less than one statement with three parts is not settled by measurement.
-- The body's instant is the statement's, as in enqueue_routed_many: enqueue_as answers it without looking.
-- `extra` carries the rare columns and is null for most jobs.
create or replace function windlass.enqueue_routed(
  tenant uuid, job uuid, lane integer, max_attempts smallint, payload json, extra jsonb)
returns void
language plpgsql security definer
as $$
declare
  place bigint;
  someone_waits boolean;
begin
  if extra is not null then
    perform windlass.enqueue_routed_many(array[$1], array[$2], array[$3], array[$4], array[1], array[$5], array[$6]);
    return;
  end if;
  if pg_catalog.length(pg_catalog.current_setting('windlass.tenant_id', true)) operator(pg_catalog.>) 0
      and pg_catalog.current_setting('windlass.tenant_id', true)::pg_catalog.uuid operator(pg_catalog.<>) $1 then
    perform windlass.tenant_for($1); -- refuses
  end if;
  if pg_catalog.current_setting('synchronous_commit') operator(pg_catalog.=) 'off' then
    perform pg_catalog.set_config('synchronous_commit', 'on', true); -- as stay_durable, without the call
  end if;
  place := pg_catalog.nextval('windlass.line_seq');
  insert into windlass.job (tenant_id, id, created_at, lane, source, max_attempts, line_seq, payload)
    values ($1, $2, pg_catalog.statement_timestamp(), $3, 1, $4, place, $5);
  insert into windlass.line (tenant_id, seq, lane, max_attempts, ids) values ($1, place, $3, $4, array[$2]);
  insert into windlass.tally (tenant_id, lane, queued) values ($1, $3, 1)
    returning exists (select from windlass.waiting) into someone_waits;
  if someone_waits then
    -- What the caller knows of the lane may be a few seconds old, and its tenant no longer take jobs. To look at the tenant each
    -- time would cost every enqueue two more relations, so whoever closes a tenant waits here too, under no worker's number.
    if exists (select from windlass.waiting w where w.worker operator(pg_catalog.<) 0) then
      perform windlass.refuse_tenant(array[$1]);
    end if;
    perform pg_catalog.pg_notify('windlass', pg_catalog.int4out($3)::pg_catalog.text);
  end if;
end
$$;
