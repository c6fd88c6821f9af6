-- The progress of each rule. due: how many jobs are past their period and still exist; is_due_partial: at least so many,
-- because only the 100,000 jobs that ended first were read. held_back: why some of them still exist, with their number.
-- behind_seconds: how long ago the first of the others should have been deleted. For a tenant, due counts its own jobs, and the
-- problem of a replacement, which can be that of another tenant, is not shown.
-- Index: history_by_time.
create or replace function windlass.retention_progress()
returns table (tenant_id uuid, definition_key text, status text, keep_seconds bigint, reached timestamptz, behind_seconds bigint,
  purged bigint, looked_at timestamptz, due bigint, is_due_partial boolean, held_back text[])
language sql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
as $$
  with rules as materialized (
    select r.duty, r.tenant_id, r.definition_id, r.definition_key, r.status, r.keep, windlass.state_code(r.status) as code,
           clock_timestamp() - r.keep as cutoff
      from windlass.retention_rules() r
     where windlass.current_tenant() is null or r.tenant_id is null or r.tenant_id = windlass.current_tenant()),
  large as materialized (select l.tables from windlass.left_to_retire() l),
  later as materialized (
    select array(select format('windlass.%I', b.name)::regclass::oid from windlass.partition_bounds('history') b, large l
                  where format('windlass.%I', b.name)::regclass = any (l.tables)
                    and b.high > windlass.uuid7_floor((select max(r.cutoff) from rules r))) as tables),
  old as materialized (
    select h.tenant_id, h.job_id, h.lane, h.job_status, h.finished_at, h.tableoid as part from windlass.history h
     where h.job_status is not null and h.finished_at < (select max(r.cutoff) from rules r)
       and (windlass.current_tenant() is null or h.tenant_id = windlass.current_tenant())
     order by h.finished_at limit 100000),
  due as materialized (
    select r.duty, o.finished_at,
           case when exists (select from windlass.purge_wait w where w.tenant_id = o.tenant_id and w.job_id = o.job_id)
                then 'wait until their artifact is removed'
                when exists (select from windlass.prune_passed p where p.tenant_id = o.tenant_id and p.job_id = o.job_id)
                then 'are needed by a blocked job, locked, or could not be deleted'
                when o.job_id = any (windlass.held_jobs(o.tenant_id, array[o.job_id])) then 'are under legal hold'
                when o.part = any (l.tables) then 'wait until their partition is past as a whole' end as reason
      from old o cross join later l
      join windlass.lane n on n.tenant_id = o.tenant_id and n.id = o.lane
      join rules r on r.definition_id = n.definition_id and r.code = o.job_status and o.finished_at < r.cutoff
       and case when r.tenant_id is not null then r.tenant_id = o.tenant_id
           else not exists (select from windlass.retention t where t.tenant_id = o.tenant_id and t.status = r.status
                               and t.definition_key in (r.definition_key, '*'))
            and not exists (select from rules t where t.tenant_id = o.tenant_id and t.definition_id = r.definition_id
                               and t.status = r.status) end), -- counted for the tenant, whose history is read again
  counted as (
    select d.duty, sum(d.jobs) as jobs, min(d.first) filter (where d.reason is null) as first,
           array_agg(d.jobs || ' ' || d.reason order by d.reason) filter (where d.reason is not null) as reasons
      from (select d.duty, d.reason, count(*) as jobs, min(d.finished_at) as first from due d group by d.duty, d.reason) d group by d.duty),
  replaced as (
    select 'the partition from ' || to_char(windlass.uuid7_instant(r.low) at time zone 'UTC', 'YYYY-MM-DD HH24:MI') || ' is being replaced'
             || coalesce(': ' || case when windlass.current_tenant() is null then r.problem end, '') as note from windlass.retiring r)
  select r.tenant_id, r.definition_key, r.status, extract(epoch from r.keep)::bigint, nullif(m.reached, '-infinity'),
         case when c.first is not null then extract(epoch from r.cutoff - c.first)
              when m.duty is not null then 0 end::bigint,
         -- For a tenant, the count of a rule that applies to all of them would show what others do.
         case when r.tenant_id is not null or windlass.current_tenant() is null then coalesce(m.moved, 0) end, m.updated_at,
         coalesce(c.jobs, 0)::bigint, (select count(*) >= 100000 from old),
         coalesce(c.reasons, '{}') || array(select p.note from replaced p where c.jobs > 0)
    from rules r left join windlass.keeper_mark m on m.duty = r.duty left join counted c on c.duty = r.duty
   order by r.definition_key, r.status, r.tenant_id nulls first
$$;
