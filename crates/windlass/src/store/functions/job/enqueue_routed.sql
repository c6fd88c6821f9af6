-- The hot way in: the caller (our Rust code) has checked the payload and holds the lane, and the job has no guard.
-- No SET clause and no unqualified name or operator, so the caller's search_path cannot reach it; changing
-- search_path and back cost about 20 of 145 us of the plain door in one run on PostgreSQL 15, on a busy machine.
-- One statement for the three rows; `extra` carries the rare columns and is null for most jobs.
create or replace function windlass.enqueue_routed(
  tenant uuid, job uuid, lane integer, max_attempts smallint, payload jsonb, extra jsonb)
returns void
language plpgsql security definer
as $$
declare
  someone_waits boolean;
begin
  if pg_catalog.length(pg_catalog.current_setting('windlass.tenant_id', true)) operator(pg_catalog.>) 0
      and pg_catalog.current_setting('windlass.tenant_id', true)::pg_catalog.uuid operator(pg_catalog.<>) $1 then
    perform windlass.tenant_for($1); -- refuses
  end if;
  if pg_catalog.current_setting('synchronous_commit') operator(pg_catalog.=) 'off' then
    perform pg_catalog.set_config('synchronous_commit', 'on', true); -- as stay_durable, without the call
  end if;
  if extra is null then
    with body as (
      insert into windlass.job (tenant_id, id, created_at, lane, source, max_attempts, payload)
        values ($1, $2, pg_catalog.clock_timestamp(), $3, 1, $4, $5)),
    counted as (insert into windlass.tally (tenant_id, lane, queued) values ($1, $3, 1))
    insert into windlass.live (tenant_id, job_id, lane, max_attempts) values ($1, $2, $3, $4)
      returning exists (select from windlass.waiting) into someone_waits;
    if someone_waits then
      perform pg_catalog.pg_notify('windlass', pg_catalog.int4out($3)::pg_catalog.text);
    end if;
  else
    perform windlass.enqueue_routed_many(array[$1], array[$2], array[$3], array[$4], array[$5], array[$6]);
  end if;
end
$$;

-- The same for many. Sorted by nothing: none of these rows can conflict, so no lock order is needed.
create or replace function windlass.enqueue_routed_many(
  tenants uuid[], jobs uuid[], lanes integer[], max_attempts smallint[], payloads jsonb[], extras jsonb[])
returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  if windlass.current_tenant() <> any (tenants) then
    perform windlass.tenant_for(t) from unnest(tenants) t; -- refuses
  end if;
  perform windlass.stay_durable();
  if extras is null then
    insert into windlass.job (tenant_id, id, created_at, lane, source, max_attempts, payload)
      select n.tenant, n.job, statement_timestamp(), n.lane, 1, n.attempts, n.payload
        from unnest(tenants, jobs, lanes, enqueue_routed_many.max_attempts, payloads) n (tenant, job, lane, attempts, payload);
  else
    insert into windlass.job (tenant_id, id, created_at, lane, source, max_attempts, payload, created_by, parent_id,
        source_ref, correlation_id, subject_type, subject_id, trace, tags)
      select n.tenant, n.job, statement_timestamp(), n.lane, coalesce(windlass.source_code(x.source), 1), n.attempts, n.payload,
             x.created_by, x.parent_id, x.source_ref, x.correlation_id, x.subject_type, x.subject_id, x.trace, x.tags
        from unnest(tenants, jobs, lanes, enqueue_routed_many.max_attempts, payloads, extras) n (tenant, job, lane, attempts, payload, extra)
        left join lateral jsonb_to_record(n.extra) x (source text, created_by uuid, parent_id uuid, source_ref text,
          correlation_id text, subject_type text, subject_id text, trace text, tags text[]) on n.extra is not null;
  end if;
  insert into windlass.live (tenant_id, job_id, lane, max_attempts)
    select n.tenant, n.job, n.lane, n.attempts
      from unnest(tenants, jobs, lanes, enqueue_routed_many.max_attempts) n (tenant, job, lane, attempts);
  insert into windlass.tally (tenant_id, lane, queued)
    select n.tenant, n.lane, count(*) from unnest(tenants, lanes) n (tenant, lane) group by n.tenant, n.lane;
  if exists (select from windlass.waiting) then
    perform pg_notify('windlass', n.lane::text) from (select distinct unnest(lanes) as lane limit 64) n;
  end if;
end
$$;
