-- Removes these jobs of one tenant from the line, regardless of their position; returns those that were queued.
--
-- Index: line by (lane, seq). settle_blocks.sql explains `= any`.
-- Lock order: the rows of the line in key order (see lock_line). Waits for a claim that takes one of them; only the
-- second statement sees what it left.
-- The other jobs keep their positions (offsets), so that paging through a list neither repeats nor skips a job.
create or replace function windlass.leave_line(tenant uuid, jobs uuid[])
returns table (job_id uuid, lane integer, holds_dedupe boolean)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  lanes integer[];
  seqs bigint[];
begin
  select l.lanes, l.seqs into lanes, seqs from windlass.lock_line(tenant, jobs) l;
  if lanes is null then
    return;
  end if;
  return query
    with place as materialized (
      select l.lane, l.seq, l.ids, l.holds_dedupe,
             array(select i.id from unnest(l.ids) with ordinality i (id, ord) where i.id <> all (jobs) order by i.ord) as stay,
             array(select coalesce(l.offsets[i.ord], l.taken + i.ord - 1)::smallint from unnest(l.ids) with ordinality i (id, ord)
                    where i.id <> all (jobs) order by i.ord) as stay_at
        from unnest(lanes, seqs) s (lane, seq)
        join windlass.line l on l.lane = any (array[s.lane]) and l.seq = s.seq and l.tenant_id = tenant),
    emptied as (
      delete from windlass.line l using place p
       where p.stay = '{}' and l.lane = any (array[p.lane]) and l.seq = p.seq and l.tenant_id = tenant),
    shortened as (
      update windlass.line l set ids = p.stay, offsets = p.stay_at from place p
       where p.stay <> '{}' and l.lane = any (array[p.lane]) and l.seq = p.seq and l.tenant_id = tenant)
    select i.id, p.lane, p.holds_dedupe from place p cross join lateral unnest(p.ids) i (id) where i.id = any (jobs);
end
$$;
