-- Creates the partitions of bodies and history for this week and the next weeks_ahead, and drops past empty ones. One
-- keeper at a time. A step that cannot be done now is left for the next round and does not block the others.
-- is_unfinished: call again soon, because there is a further step, or a lock for a new partition was not available. Weeks are
-- UTC, regardless of the session's time zone. Waits for locks only briefly, because others queue behind it, and ends at the first
-- lock that is not available. A new partition locks the default one until the end of the transaction, so a keeper's login may create
-- no more than keepers do: it then finds nothing to create.
create or replace function windlass.maintain_partitions(weeks_ahead integer, out made integer, out dropped integer,
  out is_unfinished boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '100ms'
set timezone = 'UTC'
as $$
declare
  parent text;
  week timestamp;
  answer text;
  most constant integer := case when pg_has_role(session_user, 'windlass_owner', 'MEMBER') then 12 else 2 end;
begin
  made := 0;
  dropped := 0;
  is_unfinished := false;
  if weeks_ahead is null or weeks_ahead not between 0 and most then
    perform windlass.refuse_span('weeks_ahead', 0, most); -- each partition is a cost for every statement
  end if;
  if not windlass.try_gate('partitions') then
    return;
  end if;
  -- With Citus, none of our tables is distributed, so nothing is propagated to other nodes.
  perform set_config('citus.enable_ddl_propagation', 'off', true) from pg_extension e where e.extname = 'citus';
  perform windlass.guard_types();
  foreach parent in array array['job', 'history'] loop
    for week in select date_trunc('week', now() at time zone 'UTC') + w * interval '1 week' from generate_series(0, weeks_ahead) w loop
      answer := windlass.make_partition(parent, week::date);
      made := made + (answer in ('made', 'moved'))::integer;
      -- A lock for a week that is not near can wait for the next round: whoever reads queues behind each try.
      is_unfinished := answer in ('step', 'moved') or answer = 'busy' and week <= now() at time zone 'UTC' + interval '1 day';
      if answer in ('step', 'moved', 'busy') then
        return; -- its lock must not be held during the next step
      end if;
    end loop;
  end loop;
  dropped := windlass.drop_old_partitions();
end
$$;

-- One step towards the partition of a week. Returns `there`, `made`, `moved` (made, with rows of the default partition),
-- `step` (call again in another transaction), `busy` (a lock was not available) or `left` (the week's jobs stay in the
-- default partition, and `troubles` has the reason).
--
-- Trap: attaching a partition scans the default partition under an exclusive lock, to prove that none of its rows
-- belongs to the new one. Ids chosen by callers accumulate there, so above a small size the proof comes first: a
-- constraint that is not valid yet (a short lock), then its validation (a scan that does not block), then the partition
-- (no scan). In between the default partition refuses ids of that week, so this is done only for future weeks, which
-- have few jobs yet. If another partition covers a part of the week, because its bounds were computed in another time
-- zone, the rest is created. Rows of the week that are in the default partition are moved in the same transaction (see
-- partition_rows.sql).
create or replace function windlass.make_partition(parent text, week date) returns text
language plpgsql
set timezone = 'UTC'
as $$
declare
  part text := parent || '_' || to_char(week, 'IYYY_"w"IW');
  spare text := parent || '_default';
  guard text := 'not_' || to_char(week, 'IYYY_"w"IW');
  low uuid := windlass.uuid7_floor(week::timestamp at time zone 'UTC');
  high uuid := windlass.uuid7_floor((week + 7)::timestamp at time zone 'UTC');
  other record;
  is_checked boolean;
  pages bigint := pg_relation_size(format('windlass.%I', parent || '_default')::regclass) / 8192;
  has_begun boolean := (week - 1)::timestamp at time zone 'UTC' <= clock_timestamp(); -- a day early: clocks differ
  has_rows boolean;
  is_large boolean := false;
  is_too_much boolean;
  tries integer;
  must_lock boolean := false;
  moved integer := 0;
begin
  if to_regclass(format('windlass.%I', part)) is not null then
    return 'there';
  end if;
  for other in select * from windlass.partition_bounds(parent) b order by b.low loop
    if other.low <= low and other.high > low then
      low := other.high;
    elsif other.low > low and other.low < high then
      high := other.low;
    end if;
  end loop;
  if low >= high then
    return 'there'; -- other partitions cover the whole week
  end if;
  select c.convalidated into is_checked from pg_constraint c
   where c.conrelid = format('windlass.%I', spare)::regclass and c.conname = guard;
  if is_checked then
    has_rows := false;
  else
    select r.has_rows, r.is_large, r.is_too_much into has_rows, is_large, is_too_much from windlass.rows_of_week(parent, low, high) r;
    must_lock := is_checked is null and (has_begun or has_rows) and not is_large and pages <= 1024;
    if is_too_much or has_begun and (is_large or is_checked is null and not must_lock) then
      if is_checked is not null then
        execute format('alter table windlass.%I drop constraint %I', spare, guard);
      end if;
      perform windlass.leave_partition(parent, part, low, high);
      return 'left';
    end if;
  end if;
  if is_checked is null and (pages > 64 or is_large) and not must_lock then
    execute format('alter table windlass.%I add constraint %I check (%I < %L or %I >= %L) not valid', spare, guard,
      windlass.partition_key(parent), low, windlass.partition_key(parent), high);
    return 'step';
  elsif not is_checked and not has_rows then
    execute format('alter table windlass.%I validate constraint %I', spare, guard);
    return 'step';
  end if;
  if must_lock then
    -- Whoever reads or writes waits here, before it has decided which partition to use. Otherwise an insert would fail, and a read would
    -- miss the rows.
    execute format('lock table only windlass.%I in access exclusive mode', parent);
    execute format('lock table windlass.%I in access exclusive mode', spare);
  end if;
  execute format('create table windlass.%I (like windlass.%I including all)', part, parent);
  perform windlass.guard_table(part);
  perform windlass.guard_types();
  if has_rows or must_lock then
    moved := windlass.move_rows(parent, part, low, high); -- and those that came since they were counted
    if not is_checked then
      execute format('alter table windlass.%I validate constraint %I', spare, guard);
    end if;
  end if;
  tries := case when is_large then 20 else 1 end; -- a large move is not repeated because of one reader
  loop
    begin
      execute format('alter table windlass.%I attach partition windlass.%I for values from (%L) to (%L)', parent, part, low, high);
      exit;
    exception when lock_not_available then
      tries := tries - 1;
      if tries = 0 then
        raise;
      end if;
      perform pg_sleep(0.1);
    end;
  end loop;
  if is_checked is not null then
    execute format('alter table windlass.%I drop constraint %I', spare, guard);
  end if;
  delete from windlass.trouble t where t.duty = 'partition' and t.subject = part;
  return case when moved > 0 then 'moved' else 'made' end;
exception
  when lock_not_available then
    return 'busy';
  when check_violation then
    -- A job of that week was enqueued a moment ago. The constraint must not keep further ones out.
    if is_checked is not null then
      execute format('alter table windlass.%I drop constraint %I', spare, guard);
    end if;
    return 'busy';
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

-- Partitions that do not contain the week of their name, the current week if it has none, and tables with the name of a
-- partition.
create or replace function windlass.partition_problems() returns table (name text, problem text)
language sql stable
set timezone = 'UTC'
as $$
  select b.name, format('contains ids from %s to %s, which is not the week in its name; '
           || 'other jobs of that week are in the next or the default partition', b.low, b.high)
    from unnest(array['job', 'history']) p (parent) cross join lateral windlass.partition_bounds(p.parent) b
    cross join lateral (select to_date(substring(b.name from '[0-9]{4}_w[0-9]{2}$'), 'IYYY"_w"IW') as week) w
   where w.week is not null and (b.low, b.high) is distinct from
         (windlass.uuid7_floor(w.week::timestamp at time zone 'UTC'), windlass.uuid7_floor((w.week + 7)::timestamp at time zone 'UTC'))
  union all
  select n.name, 'does not exist; jobs of that week are in the default partition'
    from unnest(array['job', 'history']) p (parent)
    cross join lateral (select p.parent || '_' || to_char(now() at time zone 'UTC', 'IYYY_"w"IW') as name) n
   where to_regclass(format('windlass.%I', n.name)) is null
  union all
  select n.name, 'is a table but not a partition; jobs of that week are in the default partition'
    from unnest(array['job', 'history']) p (parent) cross join generate_series(0, 4) w (ahead)
    cross join lateral (select p.parent || '_' || to_char(now() at time zone 'UTC' + w.ahead * interval '1 week', 'IYYY_"w"IW') as name) n
   where to_regclass(format('windlass.%I', n.name)) is not null
     and not exists (select from windlass.partition_bounds(p.parent) b where b.name = n.name)
$$;
