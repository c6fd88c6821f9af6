-- Queues deferred jobs that are due, at most `most` of them, each at a new position. Returns how many, whether there
-- may be more, and the milliseconds until the next one is due (null: none). A row that cannot be moved is recorded in
-- `problem`, and the others are moved. Tenants take turns (see tenants_in_turn).
-- Index: deferred_by_due to find who is due, deferred_of_tenant in its own order.
-- Lock: deferred rows, skipping locked ones; inside the block that deletes them, because a row that is locked outside a
-- block and deleted inside it creates a multixact.
create or replace function windlass.promote(most integer default 1000, out promoted integer, out has_more boolean, out next_due_ms bigint)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  at timestamptz := clock_timestamp();
  has_problem boolean := exists (select from windlass.problem t where t.duty = 'promote');
  turns uuid[];
  tenants uuid[];
  jobs uuid[];
begin
  perform windlass.stay_durable();
  promoted := 0;
  select count(*) >= most, array_agg(distinct d.tenant_id) into has_more, turns
    from (select d.tenant_id from windlass.deferred d where d.due_at <= at order by d.due_at limit most) d;
  if has_more then
    turns := windlass.tenants_in_turn('deferred', 'due_at', at, most);
  end if;
  begin
    select array_agg(d.tenant_id), array_agg(d.job_id) into tenants, jobs
      from unnest(turns) t (id) cross join lateral (
        select d.tenant_id, d.job_id from windlass.deferred d
         where d.tenant_id = t.id and d.due_at <= at
           and not (has_problem and windlass.is_set_aside('promote', d.tenant_id, d.job_id::text))
         order by d.due_at limit greatest(1, most / cardinality(turns)) for update skip locked) d;
    if jobs is not null then
      promoted := windlass.promote_these(tenants, jobs);
    end if;
  exception when others then
    perform windlass.raise_server_problem(sqlstate, sqlerrm);
    for i in 1 .. cardinality(jobs) loop
      begin
        promoted := promoted + windlass.promote_these(array[tenants[i]], array[jobs[i]]);
      exception when others then
        perform windlass.raise_server_problem(sqlstate, sqlerrm);
        perform windlass.note_problem('promote', tenants[i], jobs[i]::text, 'the job cannot be queued: ' || sqlerrm);
      end;
    end loop;
  end;
  has_more := has_more and promoted > 0;
  if has_problem and jobs is not null then
    perform windlass.clear_problem('promote', tenants, jobs, at);
  end if;
  select greatest(0, windlass.milliseconds_until(d.due_at, clock_timestamp())) into next_due_ms
    from windlass.deferred d where d.due_at > at order by d.due_at limit 1;
end
$$;

-- Queues these deferred jobs in the given order. Returns how many.
create or replace function windlass.promote_these(tenants uuid[], jobs uuid[]) returns integer
language plpgsql
as $$
#variable_conflict use_column
declare
  lanes integer[];
  moved integer;
begin
  with gone as (
    delete from windlass.deferred d using unnest(tenants, jobs) with ordinality n (tenant, job, ord)
     where d.tenant_id = any (array[n.tenant]) and d.job_id = n.job
    returning n.ord, d.tenant_id, d.job_id, d.lane, d.attempt, d.failures, d.lost, d.snoozes, d.max_attempts, d.holds_dedupe),
  placed as (
    insert into windlass.line (tenant_id, job_id, lane, attempt, failures, lost, snoozes, max_attempts, holds_dedupe, ids)
      select g.tenant_id, g.job_id, g.lane, g.attempt, g.failures, g.lost, g.snoozes, g.max_attempts, g.holds_dedupe, array[g.job_id]
        from gone g order by g.ord),
  counted as (
    insert into windlass.tally (tenant_id, lane, scheduled, queued)
      select g.tenant_id, g.lane, -count(*), count(*) from gone g group by g.tenant_id, g.lane)
  select count(*), array_agg(distinct g.lane) into moved, lanes from gone g;
  perform windlass.notify_lane(l) from (select unnest(lanes) as l limit 64) r;
  return moved;
end
$$;
