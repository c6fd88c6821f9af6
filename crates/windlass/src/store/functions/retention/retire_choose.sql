-- The range whose partitions are replaced next: a large one with enough jobs that can be deleted, or else several that are
-- merged. All others are pruned: their jobs are deleted one by one, which takes 0.2 ms per job instead of 2 us, but locks no
-- table and needs no other partition. A partition is looked at again after a twentieth of its age, between ten seconds and
-- an hour, and later after attempts that failed. Those that were looked at longest ago come first, so that one that cannot be
-- replaced does not delay the others. Reads a sample of each partition, and ends after a second.
create or replace function windlass.retire_choose(out low uuid, out high uuid)
language plpgsql
as $$
#variable_conflict use_column
declare
  shortest interval := (select min(r.keep) from windlass.retention_rules() r);
  began constant timestamptz := clock_timestamp();
  obstacle text := windlass.retire_obstacle();
  range record;
  found_due record;
  is_wanted boolean;
begin
  if shortest is null then
    return;
  end if;
  delete from windlass.partition_look l
   where not exists (select from windlass.partition_ranges() r where r.low = l.low and r.high = l.high);
  for range in
    select r.low, r.high, r.jobs from windlass.past_ranges(shortest) r
      left join windlass.partition_look l on l.low = r.low
     where coalesce(l.checked_at not between began - windlass.look_pause(r.high, l.tries) and began, true)
     order by l.checked_at nulls first, r.low
  loop
    select * into found_due from windlass.sample_due(range.low, range.high);
    -- Not while many more become due soon: they would be copied first.
    is_wanted := found_due.due >= windlass.enough_due(range.jobs) and found_due.soon <= found_due.due / 6 or not found_due.has_rows;
    perform windlass.note_look(range.low, range.high, range.jobs, found_due.due, not is_wanted or obstacle is not null);
    if is_wanted and obstacle is null then
      low := range.low;
      high := range.high;
      return;
    elsif is_wanted then
      perform windlass.note_problem('retire', '00000000-0000-0000-0000-000000000000', range.low::text, obstacle);
    end if;
    exit when clock_timestamp() - began > interval '1 s';
  end loop;
  if obstacle is null then
    select m.low, m.high into low, high from windlass.retire_merge(shortest) m;
  end if;
end
$$;

-- Stores what was found. Jobs of a partition that is pruned from now on are found by a pass from its first job on.
create or replace function windlass.note_look(of_low uuid, of_high uuid, jobs bigint, due bigint, is_pruned boolean) returns void
language sql
as $$
  insert into windlass.partition_look as l (low, high, jobs, due, is_pruned, pruned_to)
    values (of_low, of_high, jobs, due, is_pruned, case when is_pruned then windlass.first_key() end)
    on conflict (low) do update set high = excluded.high, jobs = excluded.jobs, due = excluded.due, checked_at = clock_timestamp(),
      is_pruned = excluded.is_pruned, pruned_to = case when l.is_pruned and excluded.is_pruned then l.pruned_to else excluded.pruned_to end
$$;

-- The jobs of these partitions are deleted one by one, because they could not be replaced.
create or replace function windlass.note_failure(of_low uuid, of_high uuid) returns void
language sql
as $$
  update windlass.partition_look l
     set tries = l.tries + 1, checked_at = clock_timestamp(), is_pruned = true,
         pruned_to = case when l.is_pruned then l.pruned_to else windlass.first_key() end
   where l.low >= of_low and l.high <= of_high
$$;

create or replace function windlass.look_pause(high uuid, tries integer) returns interval
language sql stable
return least(greatest(least((clock_timestamp() - windlass.uuid7_instant(high)) / 20, interval '1 hour'), interval '10 s')
  * power(2, least(coalesce(tries, 0), 10)), interval '1 day');

-- The size in bytes from which on a default partition is too large to be read for each replacement.
create or replace function windlass.large_default() returns bigint
language sql immutable parallel safe
return 4294967296;

-- Why no partition can be replaced, or null. Before a partition is attached, the default partition is read once, to prove
-- that it has no rows of that range: no lock is held, but other work waits for the disk. Callers choose ids of its rows.
create or replace function windlass.retire_obstacle() returns text
language sql stable
as $$
  select format('is not replaced, because %s_default has %s: callers chose many job ids that are not of version 7. '
                || 'Its jobs are deleted one by one', p, pg_size_pretty(pg_relation_size(format('windlass.%I', p || '_default')::regclass)))
    from unnest(windlass.partitioned()) p
   where pg_relation_size(format('windlass.%I', p || '_default')::regclass) > windlass.large_default() limit 1
$$;

-- How many jobs each partition has, from its size and what the last ANALYZE found.
create or replace function windlass.partition_sizes() returns table (low uuid, high uuid, jobs bigint)
language sql stable
as $$
  select b.low, b.high,
         (pg_relation_size(c.oid) / 8192.0 * case when c.relpages > 0 and c.reltuples > 0 then c.reltuples / c.relpages else 25 end)::bigint
    from windlass.partition_bounds('job') b join pg_class c on c.oid = format('windlass.%I', b.name)::regclass
$$;

-- Whether a partition is replaced when enough of its jobs can be deleted: if it is large, or narrower than a day, because
-- there are many of those.
create or replace function windlass.is_replaced(low uuid, high uuid, jobs bigint) returns boolean
language sql immutable
return jobs >= windlass.large_partition() or windlass.uuid7_instant(high) - windlass.uuid7_instant(low) < interval '1 day';

-- The partitions that can be replaced, and whose jobs are older than the shortest rule.
create or replace function windlass.past_ranges(shortest interval) returns table (low uuid, high uuid, jobs bigint)
language sql stable
as $$
  select r.low, r.high, s.jobs from windlass.partition_ranges() r join windlass.partition_sizes() s on s.low = r.low and s.high = r.high
   where r.high <= windlass.uuid7_floor(clock_timestamp() - shortest) and windlass.is_replaced(r.low, r.high, s.jobs)
$$;

-- The large partitions whose jobs prune leaves to retire: the current ones, those that were not looked at yet, and those that
-- are replaced next. Not small narrow ones: their jobs are deleted when they are due, and not only after the end of the range.
-- tables: their tables of history. low, high: the newest of them without a gap, by which the planner excludes them.
create or replace function windlass.left_to_retire(out low uuid, out high uuid, out tables oid[])
language sql stable
as $$
  with large as materialized (
    select s.low, s.high from windlass.partition_sizes() s
      join windlass.partition_ranges() r on r.low = s.low and r.high = s.high
     where s.jobs >= windlass.large_partition()
       and not exists (select from windlass.partition_look l where l.low = s.low and l.high = s.high and l.is_pruned)),
  islands as (
    select l.low, l.high, count(*) filter (where l.starts) over (order by l.low) as island
      from (select l.low, l.high, lag(l.high) over (order by l.low) is distinct from l.low as starts from large l) l),
  newest as (
    select (array_agg(i.low order by i.low))[1] as low, (array_agg(i.high order by i.low desc))[1] as high
      from islands i group by i.island order by 2 desc limit 1)
  select coalesce((select n.low from newest n), 'ffffffff-ffff-ffff-ffff-ffffffffffff'),
         coalesce((select n.high from newest n), 'ffffffff-ffff-ffff-ffff-ffffffffffff'),
         array(select format('windlass.%I', b.name)::regclass::oid from windlass.partition_bounds('history') b
                 join large l on b.low >= l.low and b.high <= l.high)
$$;

-- A replacement that takes long, for whatever reason, must not keep jobs from being deleted: those of all partitions that
-- wait for one are deleted one by one until it is over.
create or replace function windlass.retire_gives_way(now_at windlass.retiring) returns void
language plpgsql
as $$
begin
  perform windlass.note_look(r.low, r.high, r.jobs, coalesce(l.due, 0), true)
     from windlass.past_ranges((select min(k.keep) from windlass.retention_rules() k)) r
     left join windlass.partition_look l on l.low = r.low and l.high = r.high
    where l.is_pruned is not true;
  perform windlass.note_problem('retire', '00000000-0000-0000-0000-000000000000', now_at.low::text,
    format('its replacement began %s minutes ago and %s; meanwhile jobs are deleted one by one',
      (extract(epoch from clock_timestamp() - now_at.began_at) / 60)::integer, coalesce(now_at.problem, 'has not ended')));
end
$$;

-- Changes whenever the rule of a definition does.
create or replace function windlass.rules_digest() returns text
language sql stable
as $$
  select md5(coalesce(string_agg(format('%s %s %s', d.id, d.retention, d.on_purge), ',' order by d.id), ''))
    from windlass.job_definitions d
$$;

-- The rules and legal holds of each tenant that has any: when they change, it is decided about its jobs again.
create or replace function windlass.tenant_digests() returns table (tenant_id uuid, digest text)
language sql stable
as $$
  select o.tenant_id, md5(string_agg(o.of_tenant, ',' order by o.of_tenant)) from (
    select h.tenant_id, 'hold ' || h.id as of_tenant from windlass.legal_hold h
    union all
    select r.tenant_id, format('%s %s %s', r.definition_key, r.status, r.keep_seconds) from windlass.retention r
     where r.status <> 'event') o
   group by o.tenant_id
$$;
