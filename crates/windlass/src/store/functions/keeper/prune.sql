-- Deletes finished jobs past their retention, a batch at a time. Each rule stores its progress, so history is read once
-- per rule and the work resumes after a crash. A job under legal hold is skipped (releasing the hold starts the rule
-- again). A job whose artifact must be removed first waits for that. A job that a blocked job waits for is kept, or the
-- dependency would count as met: it is skipped too, and its rule returns to it when no job waits any more (see
-- prune_jobs). The rule that was processed longest ago comes first, so that a long backlog of one does not delay the
-- others. Returns the number of processed jobs, and whether there may be more.
-- Index: history_by_time. A rule reads an interval whose size is derived from the content of the last one, so that no
-- statement reads the whole backlog. The interval has at most ten times `most` rows, of all tenants and rules: a tenant whose
-- rule starts again must not make one statement read the whole history of the others. Rows with the same time are read
-- together, so that it always advances. A new rule starts at the oldest row.
-- Large partitions are left to retire, which replaces them as a whole: rules pass over their jobs (see left_to_retire).
-- A rule that has reached its end is processed again after a twentieth of its period, at most an hour: with 1,200 rules
-- and nothing to do, checking each took 1.1 s every round. A round ends after five seconds; the next one continues.
create or replace function windlass.prune(most integer default 1000, out moved integer, out has_more boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set enable_seqscan = off
set jit = off
set lock_timeout = '200ms' -- an open transaction of one tenant must not delay the others
as $$
#variable_conflict use_column
declare
  rule record;
  batch record;
  has_holds boolean := exists (select from windlass.legal_hold);
  began timestamptz := clock_timestamp();
  oldest timestamptz;
  since timestamptz;
  upto timestamptz;
  step interval;
  ended_before timestamptz;
  dealt record;
  seen integer := 0;
  capacity integer;
  gone integer;
  is_full boolean := false;
  passed integer;
  large record;
begin
  moved := 0;
  has_more := false;
  if not windlass.try_gate('prune') then
    return;
  end if;
  select * into large from windlass.left_to_retire();
  ended_before := windlass.move_prune_mark();
  perform windlass.begin_again();
  perform windlass.return_to_passed(most);
  passed := windlass.prune_given_back(most);
  for rule in
    select r.duty, r.tenant_id, r.definition_id, r.definition_key, r.status as status_name, windlass.state_code(r.status) as status,
           clock_timestamp() - r.keep as cutoff, nullif(m.reached, '-infinity') as reached, coalesce(m.span, interval '1 minute') as span
      from windlass.retention_rules() r left join windlass.keeper_mark m on m.duty = r.duty
     where m.reached is null or m.reached < clock_timestamp() - r.keep - least(r.keep / 20, interval '1 hour')
     order by m.updated_at nulls first, r.duty
  loop
    if rule.reached is null and oldest is null then
      oldest := least((select min(h.finished_at) from windlass.history h), clock_timestamp());
    end if;
    since := least(coalesce(rule.reached, oldest), rule.cutoff);
    step := rule.span;
    gone := 0;
    while since < rule.cutoff and not is_full loop
      upto := windlass.end_of_rows(since, least(since + step, rule.cutoff), 10 * most, large.low, large.high);
      capacity := most - seen;
      for batch in
        with old as materialized (
          select h.tenant_id, h.job_id, h.finished_at from windlass.history h
           where h.finished_at >= since and h.finished_at < upto and h.job_status = rule.status
             and (h.job_id < large.low or h.job_id >= large.high) and h.tableoid <> all (large.tables)
             and h.lane in (
               select l.id from windlass.lane l
                where l.definition_id = rule.definition_id
                  and case when rule.tenant_id is not null then l.tenant_id = rule.tenant_id
                      else not exists (select from windlass.retention o where o.tenant_id = l.tenant_id and o.status = rule.status_name
                                          and o.definition_key in (rule.definition_key, '*')) end)
             and not exists (select from windlass.purge_wait w where w.tenant_id = h.tenant_id and w.job_id = h.job_id)
             and not exists (select from windlass.prune_passed p where p.tenant_id = h.tenant_id and p.job_id = h.job_id)
             and (not has_holds or h.job_id <> all (windlass.held_jobs(h.tenant_id, array[h.job_id])))
           order by h.finished_at limit capacity)
        select o.tenant_id, array_agg(o.job_id) as jobs, max(max(o.finished_at)) over () as reached, sum(count(*)) over () as found
          from old o group by o.tenant_id
      loop
        is_full := batch.found >= capacity;
        upto := case when is_full then batch.reached else upto end;
        if clock_timestamp() - began > interval '5 s' then -- the rule returns to them
          insert into windlass.prune_passed (tenant_id, job_id) select batch.tenant_id, j from unnest(batch.jobs) j on conflict do nothing;
          continue;
        end if;
        select * into dealt from windlass.prune_jobs(batch.tenant_id, batch.jobs, rule.status, rule.cutoff);
        seen := seen + dealt.handled;
        gone := gone + dealt.gone;
      end loop;
      step := case when is_full then greatest((upto - since) * 2, interval '1 ms') else least(step * 2, interval '30 days') end;
      since := upto;
      exit when clock_timestamp() - began > interval '5 s'; -- the mark keeps what was done
    end loop;
    insert into windlass.keeper_mark as m (duty, reached, moved, span) values (rule.duty, least(since, ended_before), gone, step)
      on conflict (duty) do update set reached = greatest(m.reached, excluded.reached), moved = m.moved + excluded.moved,
        span = excluded.span, updated_at = clock_timestamp();
    exit when is_full or clock_timestamp() - began > interval '5 s';
  end loop;
  perform windlass.end_again();
  seen := seen + windlass.finish_clean_ups(most);
  moved := greatest(seen, windlass.prune_keys(most), windlass.prune_leftovers(10 * most), passed);
  has_more := moved >= most;
end
$$;

-- Where an interval of the history ends that has at most `most` rows, and all rows of its last instant. Jobs whose ids are in
-- the range from low to high are not read.
-- Index: history_by_time, in its order: any other plan reads the whole interval.
drop function if exists windlass.end_of_rows(timestamptz, timestamptz, integer); -- of earlier builds
create or replace function windlass.end_of_rows(since timestamptz, upto timestamptz, most integer, low uuid, high uuid) returns timestamptz
language plpgsql
set enable_sort = off
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  passed record;
begin
  select count(*) as n, max(p.finished_at) as last into passed from (
    select h.finished_at from windlass.history h where h.finished_at >= since and h.finished_at < upto
       and (h.job_id < low or h.job_id >= high)
     order by h.finished_at fetch first most rows with ties) p;
  return case when passed.n < most then upto else passed.last + interval '1 us' end;
end
$$;

-- Deletes expired keys and workers that stopped long ago: at most `most` of each, the oldest first, except rows that an
-- open transaction has locked. Returns the largest number deleted from one table.
create or replace function windlass.prune_keys(most integer) returns integer
language sql
as $$
  with requests as (
    delete from windlass.idempotency i where i.ctid = any (array(
      select o.ctid from windlass.idempotency o where o.created_at < clock_timestamp() - interval '168 hours'
       order by o.created_at limit most for update skip locked))
    returning 1),
  calls as (
    delete from windlass.request_keys k where k.ctid = any (array(
      select o.ctid from windlass.request_keys o where o.created_at < clock_timestamp() - interval '168 hours'
       order by o.created_at limit most for update skip locked))
    returning 1),
  keys as (
    delete from windlass.dedupe d where d.ctid = any (array(
      select o.ctid from windlass.dedupe o where o.until < clock_timestamp() - interval '24 hours'
       order by o.until limit most for update skip locked))
    returning 1),
  workers as (
    delete from windlass.job_workers w where w.id = any (array(
      select o.id from windlass.job_workers o where o.stopped_at < clock_timestamp() - interval '2160 hours'
       order by o.stopped_at limit most for update skip locked))
    returning 1)
  select greatest((select count(*) from requests), (select count(*) from calls), (select count(*) from keys),
    (select count(*) from workers))::integer
$$;

-- Adds the pages written since the last vacuum to the BRIN index by which fires are pruned: a scan reads every page
-- that the index does not summarize. Returns immediately during a vacuum, which does the same. Needs a separate
-- transaction, because its lock would block a vacuum until the end. Returns the number of summarized page ranges.
create or replace function windlass.summarize_times() returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '50ms'
as $$
begin
  return brin_summarize_new_values('windlass.fire_by_time'::regclass);
exception when lock_not_available then
  return 0;
end
$$;
