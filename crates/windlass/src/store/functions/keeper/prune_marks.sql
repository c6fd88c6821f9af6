-- The progress of retention rules, and when they start again. Only prune writes marks, so there are no concurrent
-- changes.

-- The instant before which no job can end any more: every transaction that may have ended a job before it has ended. A
-- job's row contains its end time and becomes visible at commit, perhaps hours later or, for a prepared transaction,
-- days. So a round stores the transactions that have started, and a later one that finds all of them ended accepts the
-- stored time. A minute is subtracted for transactions that have read the clock but have no id yet. In a database that
-- was restored into another cluster, transaction ids start again; no transaction of the old cluster is in progress
-- there.
create or replace function windlass.move_prune_mark() returns timestamptz
language plpgsql
as $$
#variable_conflict use_column
declare
  at timestamptz := clock_timestamp() - interval '1 minute';
  now_running pg_snapshot := pg_current_snapshot();
  reached timestamptz;
begin
  update windlass.prune_mark m
     set ended_before = case when m.seen_xid <= pg_snapshot_xmin(now_running) then greatest(m.ended_before, m.seen_at)
       else m.ended_before end,
         seen_at = at, seen_xid = pg_snapshot_xmax(now_running)
   where m.seen_xid <= pg_snapshot_xmin(now_running) or m.seen_xid > pg_snapshot_xmax(now_running);
  select m.ended_before into reached from windlass.prune_mark m;
  return reached;
end
$$;

-- Resets a tenant's rules after a hold was released or a rule changed: only the marks of the tenant, so that it cannot
-- restart retention for others. A request that an open transaction is repeating is left for the next round: waiting for
-- it would stop retention for all tenants.
create or replace function windlass.begin_again() returns void
language sql
as $$
  with free as materialized (select a.ctid from windlass.prune_again a where a.begun_at is null for update skip locked),
  asked as (
    update windlass.prune_again a set begun_at = clock_timestamp() from free f where a.ctid = f.ctid
    returning a.tenant_id, a.definition_key, a.status)
  update windlass.keeper_mark m set reached = '-infinity'
    from asked a left join windlass.job_definitions d on d.key = a.definition_key
   where m.duty like 'prune ' || coalesce(d.id::text, '%') || ' ' || coalesce(a.status, '%') || ' ' || a.tenant_id
$$;

-- Deletes the requests of a tenant once its rules have advanced as far as any could have when they started: from there
-- on the definition's rule covers the tenant's jobs again.
create or replace function windlass.end_again() returns void
language sql
as $$
  with rules as materialized (
    select r.tenant_id, r.definition_key, r.status, r.keep, m.reached
      from windlass.retention_rules() r left join windlass.keeper_mark m on m.duty = r.duty where r.tenant_id is not null),
  done as materialized (
    select a.ctid from windlass.prune_again a
     where a.begun_at is not null and not exists (
       select from rules r
        where r.tenant_id = a.tenant_id and r.definition_key = coalesce(a.definition_key, r.definition_key)
          and r.status = coalesce(a.status, r.status)
          and (r.reached is null or r.reached < a.begun_at - r.keep))
       for update skip locked)
  delete from windlass.prune_again a using done d where a.ctid = d.ctid
$$;

-- Moves rules back to jobs that they skipped, if no job waits for them any more, they are no longer locked (this
-- transaction locks them), and a minute has passed since they could not be deleted. The rule may have changed since, so
-- both rules that may apply to a job are moved: its definition's and its tenant's. Looks at ten times `most` of them, from
-- where the last call ended: a tenant may have millions that others wait for.
drop function if exists windlass.return_to_passed(integer); -- of earlier builds
create or replace function windlass.return_to_passed(most integer) returns void
language plpgsql
set jit = off
as $$
#variable_conflict use_column
declare
  mark record;
  last record;
begin
  insert into windlass.leftover_mark (of_table) values ('prune_passed') on conflict do nothing;
  select m.at_tenant, coalesce(nullif(m.at_key, ''), '00000000-0000-0000-0000-000000000000')::uuid as at_job into mark
    from windlass.leftover_mark m where m.of_table = 'prune_passed';
  select p.tenant_id, p.job_id into last from windlass.prune_passed p
   where (p.tenant_id, p.job_id) > (mark.at_tenant, mark.at_job) order by p.tenant_id, p.job_id offset 10 * most - 1 limit 1;
  with page as materialized (
    select p.tenant_id, p.job_id from windlass.prune_passed p
     where (p.tenant_id, p.job_id) > (mark.at_tenant, mark.at_job)
       and (p.tenant_id, p.job_id) <= (coalesce(last.tenant_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'),
                                       coalesce(last.job_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))),
  free as materialized (
    select p.tenant_id, p.job_id, h.finished_at, 'prune ' || l.definition_id || ' ' || windlass.state_name(h.job_status) as duty
      from page p
      join windlass.history h on h.tenant_id = p.tenant_id and h.job_id = p.job_id and h.job_status is not null
      join windlass.lane l on l.tenant_id = h.tenant_id and l.id = h.lane
     where not exists (select from windlass.dependency d join windlass.blocked b on b.tenant_id = d.tenant_id and b.job_id = d.job_id
                        where d.tenant_id = p.tenant_id and d.needs_job_id = p.job_id)
       and not windlass.is_set_aside('prune', p.tenant_id, p.job_id::text)
       for update of h skip locked),
  freed as (
    delete from windlass.prune_passed p using page g
     where p.tenant_id = g.tenant_id and p.job_id = g.job_id
       and ((p.tenant_id, p.job_id) in (select f.tenant_id, f.job_id from free f)
            or not exists (select from windlass.job b where b.tenant_id = p.tenant_id and b.id = p.job_id)))
  update windlass.keeper_mark m set reached = least(m.reached, f.finished_at)
    from (select d.duty, min(f.finished_at) as finished_at
            from free f cross join lateral (values (f.duty), (f.duty || ' ' || f.tenant_id)) d (duty) group by d.duty) f
   where m.duty = f.duty;
  update windlass.leftover_mark m
     set at_tenant = coalesce(last.tenant_id, '00000000-0000-0000-0000-000000000000'), at_key = coalesce(last.job_id::text, '')
   where m.of_table = 'prune_passed';
end
$$;
