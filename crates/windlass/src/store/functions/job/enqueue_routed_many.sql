-- Enqueues many jobs of any lanes, validated and routed by the caller. `parts` groups them into rows of the line: jobs
-- with the same number share a row. The caller ensures that a row has at most 64 jobs, of one lane and with the same
-- number of attempts. Not sorted: these rows cannot conflict, so no lock order is needed.
create or replace function windlass.enqueue_routed_many(
  tenants uuid[], jobs uuid[], lanes integer[], max_attempts smallint[], parts integer[], payloads json[], extras jsonb[])
returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  seqs bigint[];
begin
  perform windlass.check_routed(tenants, jobs, lanes, enqueue_routed_many.max_attempts, coalesce(parts, '{}'), payloads, extras);
  seqs := array(select nextval('windlass.line_seq') from generate_series(1, (select max(p) from unnest(parts) p)));
  perform windlass.stay_durable();
  insert into windlass.job (tenant_id, id, created_at, lane, source, max_attempts, line_seq, payload, created_by, parent_id,
      source_ref, correlation_id, subject_type, subject_id, trace, tags)
    select n.tenant, n.job, statement_timestamp(), n.lane, coalesce(windlass.source_code(x.source), 1), n.attempts, seqs[n.part],
           n.payload, x.created_by, x.parent_id, x.source_ref, x.correlation_id, x.subject_type, x.subject_id, x.trace, x.tags
      from unnest(tenants, jobs, lanes, enqueue_routed_many.max_attempts, parts, payloads, extras)
        n (tenant, job, lane, attempts, part, payload, extra)
      left join lateral jsonb_to_record(n.extra) x (source text, created_by uuid, parent_id uuid, source_ref text,
        correlation_id text, subject_type text, subject_id text, trace text, tags text[]) on n.extra is not null;
  insert into windlass.line (tenant_id, seq, lane, max_attempts, ids)
    select n.tenant, seqs[n.part], n.lane, n.attempts, array_agg(n.job order by n.ord)
      from unnest(tenants, jobs, lanes, enqueue_routed_many.max_attempts, parts) with ordinality n (tenant, job, lane, attempts, part, ord)
     group by n.tenant, n.part, n.lane, n.attempts;
  insert into windlass.tally (tenant_id, lane, queued)
    select n.tenant, n.lane, count(*) from unnest(tenants, lanes) n (tenant, lane) group by n.tenant, n.lane;
  perform windlass.set_start_deadlines(tenants, jobs, lanes);
  perform windlass.check_tenants_active(array(select distinct t from unnest(tenants) t));
  perform windlass.limit_to_quota(n.t, n.jobs) -- takes locks, so in one order
    from (select t, count(*) as jobs from unnest(tenants) t group by t order by t) n;
  if pg_sequence_last_value('windlass.workers_wait'::regclass) > 0 then
    perform pg_notify('windlass', n.lane::text) from (select distinct unnest(lanes) as lane limit 64) n;
  end if;
end
$$;
