-- Creates the partitions of today and the next days_ahead days, narrower ones while many jobs are enqueued, and drops
-- past empty ones. One keeper at a time. A step that cannot be done now is left for the next round. is_unfinished: call
-- again soon, because there is a further step, or a lock for a partition that is needed soon was not available. Days are
-- UTC, regardless of the session's time zone. Waits for locks only briefly, because others queue behind it, and ends at
-- the first lock that is not available. A new partition locks the default one until the end of the transaction, so a
-- keeper's login may create no more days than keepers do: it then finds none to create.
create or replace function windlass.maintain_partitions(days_ahead integer default 2, out made integer, out dropped integer,
  out is_unfinished boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '100ms'
set timezone = 'UTC'
as $$
declare
  parent text;
  day timestamp;
  result text;
  most constant integer := case when pg_has_role(session_user, 'windlass_owner', 'MEMBER') then 12 else 2 end;
begin
  perform windlass.check_own_session();
  made := 0;
  dropped := 0;
  is_unfinished := false;
  if days_ahead is null or days_ahead not between 0 and most then
    perform windlass.raise_span('days_ahead', 0, most); -- each partition is a cost for every statement
  end if;
  if not windlass.try_gate('partitions') then
    return;
  end if;
  perform windlass.keep_ddl_here();
  perform windlass.guard_types();
  foreach parent in array windlass.partitioned() loop
    for day in select date_trunc('day', now() at time zone 'UTC') + d * interval '1 day' from generate_series(0, days_ahead) d loop
      result := windlass.make_partition(parent, day::date);
      made := made + (result in ('made', 'moved'))::integer;
      -- A lock for a day that is not near can wait: whoever reads queues behind each try (see was_busy).
      is_unfinished := result in ('step', 'moved') or result = 'busy' and day <= now() at time zone 'UTC' + interval '1 hour';
      if result in ('step', 'moved', 'busy') then
        return; -- its lock must not be held during the next step
      end if;
    end loop;
  end loop;
  result := windlass.narrow_partitions(windlass.partition_width()); -- if busy, the next round tries again
  made := made + (result = 'made')::integer;
  if result <> 'none' then
    return;
  end if;
  dropped := windlass.drop_old_partitions();
end
$$;

-- Beside Citus nothing of ours is distributed, so nothing is propagated to other nodes.
create or replace function windlass.keep_ddl_here() returns void
language sql
as $$
  select set_config('citus.enable_ddl_propagation', 'off', true) from pg_extension e where e.extname = 'citus'
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
  perform windlass.guard_types();
  foreach setting in array coalesce(settings, (select c.reloptions from pg_class c
      where c.oid = format('windlass.%I', parent || '_default')::regclass), '{}') loop
    if setting not like 'autovacuum_enabled=%' then
      execute format('alter table windlass.%I set (%s)', part, setting);
    end if;
  end loop;
end
$$;

-- Locks all of these tables within this time, or lock_not_available.
create or replace function windlass.lock_tables(names text[], as_mode text, within_ms integer) returns void
language plpgsql
as $$
declare
  began timestamptz := clock_timestamp();
  name text;
begin
  foreach name in array names loop
    perform set_config('lock_timeout',
      greatest(1, within_ms - (1000 * extract(epoch from clock_timestamp() - began))::integer) || 'ms', true);
    execute format('lock table only windlass.%I in %s mode', name, as_mode);
  end loop;
  perform set_config('lock_timeout', '100ms', true);
end
$$;

-- Locks the parents, the default partitions and these partitions: whoever reads or writes a job waits at the parent,
-- before it has decided which partition to use. All together within 100 ms, or lock_not_available.
create or replace function windlass.lock_parents(parts text[]) returns void
language sql
as $$
  select windlass.lock_tables(windlass.partitioned() || array(select p || '_default' from unnest(windlass.partitioned()) p) || parts,
    'access exclusive', 100)
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

-- The comment of a table that is empty and to be dropped.
create or replace function windlass.emptied_mark() returns text
language sql immutable parallel safe
return 'emptied by retention; dropped as soon as nothing depends on it';

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
  select c.relname, case when obj_description(c.oid, 'pg_class') = windlass.emptied_mark()
           then 'is no partition any more and was emptied; it is dropped as soon as no view of others depends on it'
           else 'is a table but not a partition; jobs of that time are in the default partition' end
    from pg_class c
   where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
     and c.relname ~ ('^(' || array_to_string(windlass.partitioned(), '|') || ')_[0-9]{8}')
     and not exists (select from windlass.retiring r where c.relname = any (r.old || r.new))
$$;
