-- How much time a new partition covers. A day, unless so many jobs are enqueued that retention replaces partitions (see
-- retire_choose): then the widest of the widths below with at most five million jobs that is not wider than the shortest
-- rule of a definition, so that no job is kept for more than twice its period. Not narrower than a two hundredth of that rule:
-- every partition costs planning time, of all tenants. So the rule of one tenant does not count.
create or replace function windlass.partition_width() returns interval
language plpgsql
as $$
#variable_conflict use_column
declare
  rate double precision := windlass.measure_rate();
  shortest interval;
  width interval := interval '1 day';
  narrower interval;
begin
  if rate * 86400 < windlass.large_partition() then
    return interval '1 day';
  end if;
  select min(r.keep) into shortest from windlass.retention_rules() r where r.tenant_id is null;
  if shortest is null then
    return interval '1 day';
  end if;
  foreach narrower in array array[interval '1 day', interval '6 hours', interval '1 hour', interval '10 minutes', interval '1 minute'] loop
    exit when narrower < shortest / 200;
    width := narrower;
    exit when rate * extract(epoch from width) <= 5000000 and width <= greatest(shortest, interval '1 minute');
  end loop;
  return width;
end
$$;

-- From this number of jobs on, the jobs of a partition wait until it can be replaced, and are not deleted one by one as
-- soon as their period ends.
create or replace function windlass.large_partition() returns integer
language sql immutable parallel safe
return 200000;

-- How many jobs of a partition must be past their retention for it to be replaced. Measured: deleting one by one costs
-- 216 us per job; replacing costs 2 us for each job of the partition, and 30 us for each one that stays. So replacing is
-- cheaper if an eighth can go. Not for fewer than 10,000, because it locks the tables for some milliseconds.
create or replace function windlass.enough_due(jobs bigint) returns bigint
language sql immutable parallel safe
return greatest(10000, jobs / 8);

-- Jobs per second: the rate since the last measurement, at least ten seconds ago, or what is left of an earlier higher
-- one, half of it after an hour. So partitions become narrower soon, and wider only when it stays quiet.
create or replace function windlass.measure_rate() returns double precision
language plpgsql
as $$
#variable_conflict use_column
declare
  was record;
  enqueued numeric;
  seconds double precision;
  rate double precision;
begin
  select r.at, r.jobs, r.per_second into was from windlass.partition_rate r;
  seconds := extract(epoch from clock_timestamp() - was.at);
  if seconds between 0 and 10 and was.jobs is not null then
    return was.per_second;
  end if;
  select coalesce(sum(c.jobs), 0) into enqueued from (
    select t.queued + t.running + t.scheduled + t.blocked + t.succeeded + t.failed + t.dead_letter + t.canceled + t.purged
      from windlass.total t
    union all
    select t.queued + t.running + t.scheduled + t.blocked + t.succeeded + t.failed + t.dead_letter + t.canceled + t.purged
      from windlass.tally t) c (jobs);
  rate := case when was.jobs is null or seconds <= 0 then 0
    else greatest((enqueued - was.jobs) / seconds, was.per_second * power(0.5, seconds / 3600), 0) end;
  update windlass.partition_rate r set at = clock_timestamp(), jobs = enqueued, per_second = rate;
  return rate;
end
$$;

-- Divides partitions at the next multiples of the width, so that those of the next minutes have that width. The rest of
-- the day stays one partition: it takes the jobs if no keeper runs. Returns `none`, `made` or `busy`.
create or replace function windlass.narrow_partitions(width interval) returns text
language plpgsql
set timezone = 'UTC'
as $$
#variable_conflict use_column
declare
  started timestamptz := date_trunc('day', now());
  soon timestamptz := clock_timestamp() + least(width / 4, interval '10 s'); -- ids of clocks that are ahead
  ends timestamptz[];
  range record;
begin
  if width >= interval '1 day' or windlass.was_busy(interval '10 s') then
    return 'none';
  end if;
  -- Not before half of the last ones are used, so that parents are locked less often.
  if (select count(*) from windlass.partition_ranges() r
       where r.low > windlass.uuid7_floor(soon) and windlass.uuid7_instant(r.high) - windlass.uuid7_instant(r.low) <= width) >= 2 then
    return 'none';
  end if;
  for range in
    select r.low, r.high from windlass.partition_ranges() r
     where r.high > windlass.uuid7_floor(soon) and windlass.uuid7_instant(r.high) - windlass.uuid7_instant(r.low) > width
     order by r.low limit 2
  loop
    ends := array(
      select e from generate_series(started, started + interval '2 days', width) e
       where e > soon and e > windlass.uuid7_instant(range.low) and e < windlass.uuid7_instant(range.high) order by e limit 4);
    if ends <> '{}' then
      return windlass.split_partition(range.low, range.high, ends);
    end if;
  end loop;
  return 'none';
end
$$;

-- Divides the partitions of a range: the tables keep the ids before the first instant, and new ones take the others. No
-- row may be in the new ranges. Attaching reads the tables and the default partitions under an exclusive lock, so nothing
-- is done while they are large: a partition that was not divided soon enough stays as it is.
create or replace function windlass.split_partition(of_low uuid, of_high uuid, ends timestamptz[]) returns text
language plpgsql
as $$
#variable_conflict use_column
declare
  bounds uuid[] := array(select windlass.uuid7_floor(e) from unnest(ends) e order by e) || of_high;
  part record;
  name text;
  news text[] := '{}';
begin
  if (select sum(pg_relation_size(format('windlass.%I', b.name)::regclass)) > 134217728 from windlass.partitions() b
       where b.low = of_low and b.high = of_high)
     or (select sum(pg_relation_size(format('windlass.%I', p || '_default')::regclass)) > 8388608
           from unnest(windlass.partitioned()) p) then
    return 'none';
  end if;
  foreach name in array windlass.partitioned() loop
    for n in 1 .. cardinality(ends) loop
      news := news || windlass.partition_name(name, bounds[n]);
      perform windlass.make_part(name, news[cardinality(news)]);
    end loop;
  end loop;
  perform windlass.lock_parents(array(select b.name from windlass.partitions() b where b.low = of_low and b.high = of_high));
  for part in select b.parent, b.name, row_number() over () as place from windlass.partitions() b
               where b.low = of_low and b.high = of_high loop
    execute format('alter table windlass.%I detach partition windlass.%I', part.parent, part.name);
    execute format('alter table windlass.%I attach partition windlass.%I for values from (%L) to (%L)', part.parent, part.name,
      of_low, bounds[1]);
    for n in 1 .. cardinality(ends) loop
      execute format('alter table windlass.%I attach partition windlass.%I for values from (%L) to (%L)', part.parent,
        news[(part.place - 1) * cardinality(ends) + n], bounds[n], bounds[n + 1]);
    end loop;
  end loop;
  return 'made';
exception
  when lock_not_available then
    perform windlass.note_busy();
    return 'busy';
  when check_violation then
    return 'busy'; -- a clock is ahead
end
$$;
