-- The progress of each rule. due: how many jobs are past their period and still exist; is_due_partial: at least so many,
-- because only the 10,000 jobs of all tenants that ended first were read. held_back: why some of them still exist, with their
-- number. behind_seconds: how long ago the first of the others should have been deleted; if the count is partial, it can also
-- be how far the rule has to read. For a tenant, due counts its own jobs, and the problem of a replacement, which can be that
-- of another tenant, is not shown. Each job is compared with the rule of its tenant or the common one, not with all rules.
-- Index: history_by_time, in its order: any other plan reads the whole history.
create or replace function windlass.retention_progress()
returns table (tenant_id uuid, definition_key text, status text, keep_seconds bigint, reached timestamptz, behind_seconds bigint,
  purged bigint, checked_at timestamptz, due bigint, is_due_partial boolean, held_back text[])
language sql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_sort = off
set enable_bitmapscan = off
set enable_seqscan = off
set enable_nestloop = off
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
     where h.finished_at < (select max(r.cutoff) from rules r)
     order by h.finished_at limit 10000),
  mine as materialized (
    select o.*, n.definition_id from old o join windlass.lane n on n.id = o.lane and n.tenant_id = o.tenant_id
     where o.job_status is not null and (windlass.current_tenant() is null or o.tenant_id = windlass.current_tenant())),
  own as materialized (select distinct o.tenant_id, o.definition_key, o.status from windlass.retention o),
  matched as materialized (
    select r.duty, m.* from mine m
      join rules r on r.tenant_id = m.tenant_id and r.definition_id = m.definition_id and r.code = m.job_status
     where m.finished_at < r.cutoff
    union all
    select r.duty, m.* from mine m join rules r on r.definition_id = m.definition_id and r.code = m.job_status and r.tenant_id is null
     where m.finished_at < r.cutoff
       and not exists (select from own o where o.tenant_id = m.tenant_id and o.status = r.status and o.definition_key = r.definition_key)
       and not exists (select from own o where o.tenant_id = m.tenant_id and o.status = r.status and o.definition_key = '*')
       and not exists (select from rules t where t.tenant_id = m.tenant_id and t.definition_id = m.definition_id
                          and t.code = m.job_status)), -- counted for the tenant, whose history is read again
  held as materialized (
    select g.tenant_id, h.job_id from (select m.tenant_id, array_agg(m.job_id) as jobs from matched m group by m.tenant_id) g
      cross join lateral unnest(windlass.held_jobs(g.tenant_id, g.jobs)) h (job_id)),
  due as materialized (
    select m.duty, m.finished_at,
           case when exists (select from windlass.purge_wait w where w.tenant_id = m.tenant_id and w.job_id = m.job_id)
                then 'wait until their artifact is removed'
                when exists (select from windlass.prune_passed p where p.tenant_id = m.tenant_id and p.job_id = m.job_id)
                then 'are needed by a blocked job, locked, or could not be deleted'
                when (m.tenant_id, m.job_id) in (select h.tenant_id, h.job_id from held h) then 'are under legal hold'
                when m.part = any (l.tables) then 'wait until their partition is past as a whole' end as reason
      from matched m cross join later l),
  counted as (
    select d.duty, sum(d.jobs) as jobs, min(d.first) filter (where d.reason is null) as first,
           array_agg(d.jobs || ' ' || d.reason order by d.reason) filter (where d.reason is not null) as reasons
      from (select d.duty, d.reason, count(*) as jobs, min(d.finished_at) as first from due d group by d.duty, d.reason) d group by d.duty),
  replaced as (
    select 'the partition from ' || to_char(windlass.uuid7_instant(p.low) at time zone 'UTC', 'YYYY-MM-DD HH24:MI') || p.what as note
      from (select r.low, ' is being replaced'
                     || coalesce(': ' || case when windlass.current_tenant() is null then r.problem end, '') as what
              from windlass.retiring r
            union all
            (select t.subject::uuid, ': ' || t.reason from windlass.problem t
              where t.duty = 'retire' and t.subject ~ '^[0-9a-f-]{36}$' and windlass.current_tenant() is null
              order by t.subject limit 5)) p),
  extent as materialized (select count(*) >= 10000 as is_partial from old)
  select r.tenant_id, r.definition_key, r.status, extract(epoch from r.keep)::bigint, nullif(m.reached, '-infinity'),
         extract(epoch from greatest(r.cutoff - c.first, case when e.is_partial and m.reached > '-infinity' then r.cutoff - m.reached end,
           case when m.duty is not null then interval '0' end))::bigint,
         -- For a tenant, the count of a rule that applies to all of them would show what others do.
         case when r.tenant_id is not null or windlass.current_tenant() is null then coalesce(m.moved, 0) end, m.updated_at,
         coalesce(c.jobs, 0)::bigint, e.is_partial,
         coalesce(c.reasons, '{}') || array(select p.note from replaced p where c.jobs > 0)
    from rules r cross join extent e left join windlass.keeper_mark m on m.duty = r.duty left join counted c on c.duty = r.duty
   order by r.definition_key, r.status, r.tenant_id nulls first
$$;
