-- The range whose partitions are replaced next: the oldest large one with enough jobs that can be deleted, or else several
-- that are merged. Others are left to prune, which deletes jobs one by one: that takes 0.2 ms per job instead of 2 us, but
-- locks no table and needs no other partition. Each partition is looked at again after a twentieth of the shortest rule,
-- between ten seconds and an hour. Reads the history of a partition until it has found enough.
create or replace function windlass.retire_choose(out low uuid, out high uuid)
language plpgsql
as $$
#variable_conflict use_column
declare
  shortest interval := (select min(r.keep) from windlass.retention_rules() r);
  range record;
  found_due bigint;
  were_due bigint;
  hands_back boolean;
  is_filled boolean := false;
begin
  if shortest is null then
    return;
  end if;
  delete from windlass.partition_look l where not exists (select from windlass.partition_ranges() r where r.low = l.low and r.high = l.high);
  for range in
    select r.low, r.high, s.jobs from windlass.partition_ranges() r join windlass.partition_sizes() s on s.low = r.low
      left join windlass.partition_look l on l.low = r.low
     where r.high <= windlass.uuid7_floor(clock_timestamp() - shortest)
       and coalesce(l.looked_at, '-infinity') < clock_timestamp() - greatest(least(shortest / 20, interval '1 hour'), interval '10 s')
     order by r.low
  loop
    if not is_filled then
      perform windlass.fill_keep();
      is_filled := true;
    end if;
    found_due := case when windlass.is_replaced(range.low, range.high, range.jobs)
      then windlass.count_due(range.low, range.high, windlass.enough_due(range.jobs)) else 0 end;
    select l.due into were_due from windlass.partition_look l where l.low = range.low;
    hands_back := found_due > 0 and found_due < windlass.enough_due(range.jobs) and found_due is distinct from were_due;
    continue when hands_back and not windlass.try_gate('prune'); -- a round in progress would write its marks after this
    insert into windlass.partition_look as l (low, high, jobs, due) values (range.low, range.high, range.jobs, found_due)
      on conflict (low) do update set high = excluded.high, jobs = excluded.jobs, due = excluded.due, looked_at = clock_timestamp();
    if found_due >= windlass.enough_due(range.jobs) then
      low := range.low;
      high := range.high;
      return;
    elsif hands_back then
      -- Their rules have passed them, while the partition was large enough to be replaced.
      update windlass.keeper_mark m set reached = least(m.reached, windlass.uuid7_instant(range.low)) where m.duty like 'prune %';
    end if;
  end loop;
  select m.low, m.high into low, high from windlass.retire_merge(shortest) m;
end
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

-- The large partitions whose jobs prune leaves to retire: the current ones, those that were not looked at yet, those with
-- enough jobs that can be deleted, and the one that is being replaced. tables: their tables of history. low, high: the
-- newest of them without a gap, by which the planner excludes them.
create or replace function windlass.left_to_retire(out low uuid, out high uuid, out tables oid[])
language sql stable
as $$
  with shortest as (select min(r.keep) as keep from windlass.retention_rules() r),
  large as materialized (
    select s.low, s.high from windlass.partition_sizes() s
      join windlass.partition_ranges() r on r.low = s.low and r.high = s.high
      left join windlass.partition_look l on l.low = s.low and l.high = s.high
     where windlass.is_replaced(s.low, s.high, s.jobs)
       and (s.high > windlass.uuid7_floor(clock_timestamp() - (select keep from shortest)) or l.low is null
            or l.due >= windlass.enough_due(l.jobs))
    union
    select s.low, s.high from windlass.partition_sizes() s join windlass.retiring r on s.low >= r.low and s.high <= r.high),
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

-- How many jobs of the range can be deleted now, counted up to `most`.
create or replace function windlass.count_due(low uuid, high uuid, most bigint) returns bigint
language plpgsql
set enable_nestloop = off
as $$
#variable_conflict use_column
declare
  due bigint;
begin
  execute format($q$
    with protected as materialized (select p.tenant_id, p.job_id from windlass.retire_protected(%1$L, %2$L) p)
    select count(*) from (
      select from windlass.history h join windlass.retiring_keep k on k.tenant_id = h.tenant_id and k.lane = h.lane and k.status = h.job_status
       where h.job_id >= %1$L and h.job_id < %2$L and h.finished_at <= clock_timestamp() - k.keep
         and (h.artifact is null or not k.has_clean_up)
         and not exists (select from protected p where p.tenant_id = h.tenant_id and p.job_id = h.job_id)
       limit %3$s) d
    $q$, low, high, most) into due;
  return due;
end
$$;

-- Stores how long jobs of each lane are kept after they ended with a status. A tenant's rule for the definition takes
-- precedence over its rule for all definitions, and that over the definition's.
create or replace function windlass.fill_keep() returns void
language sql
as $$
  delete from windlass.retiring_keep;
  insert into windlass.retiring_keep (tenant_id, lane, status, keep, has_clean_up)
    select l.tenant_id, l.id, windlass.state_code(s.name),
           case when o.is_set then make_interval(secs => o.keep_seconds)
                when windlass.is_whole(d.retention -> s.name, 0, 3162240000)
                then make_interval(secs => (d.retention ->> s.name)::double precision) end,
           d.on_purge is not null
      from windlass.lane l join windlass.job_definitions d on d.id = l.definition_id
      cross join unnest(array['succeeded', 'failed', 'dead_letter', 'canceled']) s (name)
      left join lateral (
        select true as is_set, r.keep_seconds from windlass.retention r
         where r.tenant_id = l.tenant_id and r.status = s.name and r.definition_key in (d.key, '*')
         order by r.definition_key = '*' limit 1) o on true
$$;

-- Changes whenever a rule does.
create or replace function windlass.rules_digest() returns text
language sql stable
as $$
  select md5(coalesce((select string_agg(format('%s %s %s', d.id, d.retention, d.on_purge), ',' order by d.id) from windlass.job_definitions d), '')
    || coalesce((select string_agg(format('%s %s %s %s', r.tenant_id, r.definition_key, r.status, r.keep_seconds), ','
         order by r.tenant_id, r.definition_key, r.status) from windlass.retention r), ''))
$$;

-- The jobs of the range that a blocked job waits for, by a dependency that a transaction from `since` on has written.
create or replace function windlass.retire_needed(low uuid, high uuid, since xid8) returns table (tenant_id uuid, job_id uuid)
language sql stable
as $$
  select d.tenant_id, d.needs_job_id from windlass.dependency d
   where d.xid >= since and d.needs_job_id >= low and d.needs_job_id < high
     and exists (select from windlass.blocked b where b.tenant_id = d.tenant_id and b.job_id = d.job_id)
$$;

-- The jobs of the range under legal hold: under any, or only under holds that were placed since the copy.
create or replace function windlass.retire_held(low uuid, high uuid, only_new boolean) returns table (tenant_id uuid, job_id uuid)
language sql stable
as $$
  with holds as materialized (
    select h.tenant_id, h.job_id, h.subject_type, h.subject_id from windlass.legal_hold h
     where not only_new or not exists (select from windlass.retiring_hold k where k.tenant_id = h.tenant_id and k.id = h.id))
  select h.tenant_id, h.job_id from holds h where h.job_id >= low and h.job_id < high
  union all
  select b.tenant_id, b.id from windlass.job b
    join holds h on h.tenant_id = b.tenant_id and h.subject_type = b.subject_type and h.subject_id = b.subject_id
   where h.job_id is null and b.id >= low and b.id < high
  union all
  select b.tenant_id, b.id from windlass.job b
   where b.tenant_id in (select h.tenant_id from holds h where h.job_id is null and h.subject_id is null) and b.id >= low and b.id < high
$$;

-- The jobs of the range that stay whatever their rule says: they have not ended, their artifact is being removed, a
-- blocked job waits for them, or they are under legal hold.
create or replace function windlass.retire_protected(low uuid, high uuid) returns table (tenant_id uuid, job_id uuid)
language sql stable
as $$
  select u.tenant_id, u.job_id from windlass.unfinished() u where u.job_id >= low and u.job_id < high
  union select w.tenant_id, w.job_id from windlass.purge_wait w where w.job_id >= low and w.job_id < high
  union select n.tenant_id, n.job_id from windlass.retire_needed(low, high, '0') n
  union select h.tenant_id, h.job_id from windlass.retire_held(low, high, false) h
$$;
