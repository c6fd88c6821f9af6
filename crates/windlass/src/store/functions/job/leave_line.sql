-- Takes these jobs of one tenant out of line, wherever they stand in it; answers those that stood there.
--
-- Index: bodies by primary key, then line by (lane, seq), and line_by_job for those that came back into line.
-- The first part of a key is looked for by = any for the reason told in settle.sql.
-- Locks: the rows of the line in the order of their key. A claim that is taking one of them is waited for, and only the
-- second statement sees what it left.
-- The others keep their places (offsets), so that a list which is being paged through neither repeats nor skips one.
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
  select array_agg(s.lane order by s.lane, s.seq), array_agg(s.seq order by s.lane, s.seq) into lanes, seqs from (
    select l.lane, l.seq from windlass.job b
      join windlass.line l on l.lane = b.lane and l.seq = b.line_seq and l.tenant_id = b.tenant_id
     where b.tenant_id = tenant and b.id = any (jobs) and b.id = any (l.ids)
    union
    select l.lane, l.seq from windlass.line l where l.tenant_id = tenant and l.job_id = any (jobs)) s;
  if lanes is null then
    return;
  end if;
  perform from unnest(lanes, seqs) s (lane, seq)
    cross join lateral (select from windlass.line l where l.lane = s.lane and l.seq = s.seq and l.tenant_id = tenant for update) l;
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
