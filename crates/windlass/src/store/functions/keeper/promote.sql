-- Moves deferred jobs whose time has come into line, at most `most` of them, each with a fresh place in line.
-- Returns how many, and the milliseconds until the next one is due (null: none).
-- Index: deferred_by_due, read in its own order. Locks: deferred rows, skipping locked ones.
create or replace function windlass.promote(most integer, out promoted integer, out next_due_ms bigint)
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
  lanes integer[];
begin
  perform windlass.stay_durable();
  with due as materialized (
    select d.ctid as place from windlass.deferred d where d.due_at <= at order by d.due_at limit most for update skip locked),
  gone as (
    delete from windlass.deferred d using due where d.ctid = due.place
    returning d.tenant_id, d.job_id, d.due_at, d.lane, d.attempt, d.failures, d.lost, d.snoozes, d.max_attempts, d.holds_dedupe),
  placed as (
    insert into windlass.line (tenant_id, job_id, lane, attempt, failures, lost, snoozes, max_attempts, holds_dedupe, ids)
      select g.tenant_id, g.job_id, g.lane, g.attempt, g.failures, g.lost, g.snoozes, g.max_attempts, g.holds_dedupe, array[g.job_id]
        from gone g order by g.due_at, g.job_id),
  counted as (
    insert into windlass.tally (tenant_id, lane, scheduled, queued)
      select g.tenant_id, g.lane, -count(*), count(*) from gone g group by g.tenant_id, g.lane)
  select count(*), array_agg(distinct g.lane) into promoted, lanes from gone g;
  if lanes is not null then
    perform windlass.ring(l) from unnest(lanes) l limit 64;
  end if;
  select greatest(0, extract(epoch from d.due_at - clock_timestamp()) * 1000)::bigint into next_due_ms
    from windlass.deferred d order by d.due_at limit 1;
end
$$;
