-- Creates the partitions of today and the next days_ahead days, narrower ones while many jobs are enqueued, and drops
-- past empty ones. One keeper at a time. A step that cannot be done now is left for the next round and does not block
-- the others. is_unfinished: call again soon, because there is a further step or a lock was not available. Days are UTC,
-- regardless of the session's time zone.
-- Lock order for a drop: the parents, then the partitions, which are then checked again, because a job may have committed
-- into one. Waits for locks only briefly, because others queue behind it.
create or replace function windlass.maintain_partitions(days_ahead integer, out made integer, out dropped integer,
  out is_unfinished boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '100ms'
set timezone = 'UTC'
as $$
declare
  parent text;
  day timestamp;
  answer text;
  past record;
begin
  made := 0;
  dropped := 0;
  is_unfinished := false;
  if not windlass.try_gate('partitions') then
    return;
  end if;
  foreach parent in array windlass.partitioned() loop
    for day in select date_trunc('day', now() at time zone 'UTC') + d * interval '1 day' from generate_series(0, days_ahead) d loop
      answer := windlass.make_partition(parent, day::date);
      made := made + (answer in ('made', 'moved'))::integer;
      is_unfinished := is_unfinished or answer in ('step', 'moved', 'busy');
      if answer in ('step', 'moved') then
        return; -- its lock must not be held during the next step
      end if;
    end loop;
  end loop;
  answer := windlass.narrow_partitions(windlass.partition_width());
  is_unfinished := is_unfinished or answer = 'busy';
  made := made + (answer = 'made')::integer;
  if answer = 'made' then
    return;
  end if;
  for past in
    select b.low, b.high from windlass.partition_ranges() b
     where b.high < windlass.uuid7_floor(now() - interval '1 hour')
       and not exists (select from windlass.retiring r where r.low < b.high and r.high > b.low)
  loop
    answer := windlass.drop_empty(past.low, past.high);
    dropped := dropped + (answer = 'dropped')::integer;
    is_unfinished := is_unfinished or answer = 'busy';
  end loop;
end
$$;

-- The tables that have the same partitions, by the id of the job.
create or replace function windlass.partitioned() returns text[]
language sql immutable parallel safe
return array['job', 'history', 'progress', 'job_log'];

-- The name of a new partition that starts at this id: the time at which it starts, and a number if the name is taken.
create or replace function windlass.partition_name(parent text, low uuid) returns text
language plpgsql stable
set timezone = 'UTC'
as $$
declare
  base text := parent || to_char(windlass.uuid7_instant(low), case when windlass.uuid7_instant(low)
    = date_trunc('day', windlass.uuid7_instant(low)) then '_YYYYMMDD' else '_YYYYMMDD_HH24MI' end);
  name text := base;
  number integer := 1;
begin
  while to_regclass(format('windlass.%I', name)) is not null loop
    number := number + 1;
    name := base || '_n' || number;
  end loop;
  return name;
end
$$;

-- Creates a table that can become a partition, with the row security and the settings of one.
create or replace function windlass.make_part(parent text, part text, settings text[] default null) returns void
language plpgsql
as $$
declare
  setting text;
begin
  execute format('create table windlass.%I (like windlass.%I including all)', part, parent);
  perform windlass.guard_table(part);
  foreach setting in array coalesce(settings, (select c.reloptions from pg_class c
      where c.oid = format('windlass.%I', parent || '_default')::regclass), '{}') loop
    if setting not like 'autovacuum_enabled=%' then
      execute format('alter table windlass.%I set (%s)', part, setting);
    end if;
  end loop;
end
$$;

-- Drops the partitions of a past range if all of them are empty. Returns `dropped`, `kept` or `busy`.
create or replace function windlass.drop_empty(of_low uuid, of_high uuid) returns text
language plpgsql
as $$
declare
  parts text[] := array(select b.name from windlass.partitions() b where b.low = of_low and b.high = of_high);
begin
  if not windlass.are_empty(parts) then
    return 'kept';
  end if;
  perform windlass.lock_parents(parts);
  if not windlass.are_empty(parts) then
    return 'kept';
  end if;
  perform windlass.drop_tables(parts);
  delete from windlass.partition_look l where l.low = of_low;
  return 'dropped';
exception when lock_not_available then
  return 'busy';
end
$$;

create or replace function windlass.are_empty(parts text[]) returns boolean
language plpgsql
as $$
declare
  part text;
  is_empty boolean;
begin
  foreach part in array parts loop
    execute format('select not exists (select from windlass.%I)', part) into is_empty;
    if not is_empty then
      return false;
    end if;
  end loop;
  return true;
end
$$;

-- Locks the parents, the default partitions and these partitions: whoever reads or writes a job waits at the parent,
-- before it has decided which partition to use. All together within 100 ms, or lock_not_available.
create or replace function windlass.lock_parents(parts text[]) returns void
language plpgsql
as $$
declare
  began timestamptz := clock_timestamp();
  name text;
begin
  foreach name in array windlass.partitioned() || array(select p || '_default' from unnest(windlass.partitioned()) p) || parts loop
    perform set_config('lock_timeout', greatest(1, 100 - extract(milliseconds from clock_timestamp() - began)::integer) || 'ms', true);
    execute format('lock table only windlass.%I in access exclusive mode', name);
  end loop;
end
$$;

create or replace function windlass.drop_tables(names text[]) returns void
language plpgsql
as $$
declare
  name text;
begin
  foreach name in array names loop
    execute format('drop table if exists windlass.%I', name);
  end loop;
end
$$;

-- The partitions of a table with their range of ids, without the default partition.
create or replace function windlass.partition_bounds(parent text) returns table (name text, low uuid, high uuid)
language sql stable
as $$
  select c.relname::text, coalesce(substring(b.text from $f$FROM \('([0-9a-f-]{36})'\)$f$)::uuid, '00000000-0000-0000-0000-000000000000'),
         coalesce(substring(b.text from $t$TO \('([0-9a-f-]{36})'\)$t$)::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    from pg_inherits i join pg_class c on c.oid = i.inhrelid cross join lateral (select pg_get_expr(c.relpartbound, c.oid) as text) b
   where i.inhparent = format('windlass.%I', parent)::regclass and b.text like 'FOR VALUES%'
$$;

create or replace function windlass.partitions() returns table (parent text, name text, low uuid, high uuid)
language sql stable
as $$
  select p.parent, b.name, b.low, b.high
    from unnest(windlass.partitioned()) with ordinality p (parent, place) cross join lateral windlass.partition_bounds(p.parent) b
   order by b.low, p.place
$$;

-- The ranges for which every table has a partition.
create or replace function windlass.partition_ranges() returns table (low uuid, high uuid)
language sql stable
as $$
  select b.low, b.high from windlass.partitions() b group by b.low, b.high
  having count(*) = cardinality(windlass.partitioned()) order by b.low
$$;

-- Partitions that do not start at the time of their name, ranges that not every table has, the current time if there is
-- no partition for it, and tables with the name of a partition.
create or replace function windlass.partition_problems() returns table (name text, problem text)
language sql stable
set timezone = 'UTC'
as $$
  select b.name, format('contains ids from %s to %s, which is not the time in its name; '
           || 'other jobs of that time are in another or the default partition', b.low, b.high)
    from windlass.partitions() b
    cross join lateral (select substring(b.name from '_([0-9]{8})') as day, substring(b.name from '_[0-9]{8}_([0-9]{4})') as minute) n
   where n.day is not null and b.low <> windlass.uuid7_floor(to_timestamp(n.day || coalesce(n.minute, '0000'), 'YYYYMMDDHH24MI'))
  union all
  select min(b.name), format('not every table has a partition from %s to %s: retention deletes its jobs one by one', b.low, b.high)
    from windlass.partitions() b group by b.low, b.high having count(*) <> cardinality(windlass.partitioned())
  union all
  select n.name, 'does not exist; jobs of that day are in the default partition'
    from unnest(windlass.partitioned()) p (parent)
    cross join lateral (select p.parent || '_' || to_char(now(), 'YYYYMMDD') as name) n
   where not exists (select from windlass.partition_bounds(p.parent) b
                      where b.low <= windlass.uuid7_floor(now()) and b.high > windlass.uuid7_floor(now()))
  union all
  select c.relname, 'is a table but not a partition; jobs of that time are in the default partition'
    from pg_class c
   where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
     and c.relname ~ ('^(' || array_to_string(windlass.partitioned(), '|') || ')_[0-9]{8}')
     and not exists (select from windlass.retiring r where c.relname = any (r.old || r.new))
$$;
