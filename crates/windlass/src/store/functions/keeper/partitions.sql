-- Makes the partitions of bodies and history for this week and the next weeks_ahead, and drops those that are over and
-- empty. One keeper at a time. What cannot be done now is left for the next round, and keeps nothing else from being done.
-- is_unfinished: call again soon, there is a further step or somebody held a lock.
-- Weeks are those of UTC, whatever the session's time zone. Locks are waited for only briefly, because everyone else waits behind.
-- Locks when dropping: the parent, then the partition, and only then is it looked at again: a job may be about to commit into it.
create or replace function windlass.maintain_partitions(weeks_ahead integer, out made integer, out dropped integer, out is_unfinished boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '100ms'
set timezone = 'UTC'
as $$
declare
  parent text;
  week timestamp;
  answer text;
  part record;
  is_empty boolean;
begin
  made := 0;
  dropped := 0;
  is_unfinished := false;
  if not windlass.try_gate('partitions') then
    return;
  end if;
  foreach parent in array array['job', 'history'] loop
    for week in select date_trunc('week', now() at time zone 'UTC') + w * interval '1 week' from generate_series(0, weeks_ahead) w loop
      answer := windlass.make_partition(parent, week::date);
      made := made + (answer = 'made')::integer;
      is_unfinished := is_unfinished or answer in ('step', 'busy');
      if answer = 'step' then
        return; -- its lock must not be held while the next step works
      end if;
    end loop;
  end loop;
  for part in
    select c.relname, p.relname as parent from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_class p on p.oid = i.inhparent
     where p.oid in ('windlass.job'::regclass, 'windlass.history'::regclass) and c.relname ~ '_w[0-9]{2}$'
       and to_date(right(c.relname, 8), 'IYYY"_w"IW') + 7 < (now() at time zone 'UTC')::date
  loop
    execute format('select not exists (select from windlass.%I)', part.relname) into is_empty;
    if is_empty then
      begin
        execute format('lock table only windlass.%I in access exclusive mode', part.parent);
        execute format('lock table windlass.%I in access exclusive mode', part.relname);
        execute format('select not exists (select from windlass.%I)', part.relname) into is_empty;
        if is_empty then
          execute format('drop table windlass.%I', part.relname);
          dropped := dropped + 1;
        end if;
      exception when lock_not_available then
        is_unfinished := true;
      end;
    end if;
  end loop;
end
$$;

-- One step towards the partition of a week: answers `there`, `made`, `step` (call again in another transaction), `busy` (a lock was
-- held) or `left` (the week's jobs stay in the default partition).
--
-- Attaching a partition scans the default one under a lock that stops everybody, to prove that no row of it belongs to the new one. Ids
-- chosen by callers pile up there, so beyond a small size the proof comes first: a constraint that is not checked yet (one instant under the
-- lock), then its check (a scan that stops nobody), then the partition (no scan). In between the default partition refuses ids of that
-- week, so it is done only for weeks that have not begun, of which no job can be yet. Where another partition covers a part of the week,
-- its bounds made under another time zone, the rest is made.
create or replace function windlass.make_partition(parent text, week date) returns text
language plpgsql
set timezone = 'UTC'
as $$
declare
  part text := parent || '_' || to_char(week, 'IYYY_"w"IW');
  spare text := parent || '_default';
  guard text := 'not_' || to_char(week, 'IYYY_"w"IW');
  of_id text := case parent when 'job' then 'id' else 'job_id' end;
  low uuid := windlass.uuid7_floor(week::timestamp at time zone 'UTC');
  high uuid := windlass.uuid7_floor((week + 7)::timestamp at time zone 'UTC');
  other record;
  is_checked boolean;
  is_small boolean := pg_relation_size(format('windlass.%I', parent || '_default')::regclass) <= 64 * 8192;
  has_begun boolean := (week - 1)::timestamp at time zone 'UTC' <= clock_timestamp(); -- a day early: clocks differ
  has_rows boolean;
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
    return 'there'; -- others cover all of it
  end if;
  select c.convalidated into is_checked from pg_constraint c where c.conrelid = format('windlass.%I', spare)::regclass and c.conname = guard;
  if is_small or is_checked then
    execute format('create table windlass.%I (like windlass.%I including all)', part, parent);
    perform windlass.guard_table(part);
    execute format('alter table windlass.%I attach partition windlass.%I for values from (%L) to (%L)', parent, part, low, high);
    if is_checked is not null then
      execute format('alter table windlass.%I drop constraint %I', spare, guard);
    end if;
    return 'made';
  elsif is_checked is null then
    execute format('select exists (select from windlass.%I where %I >= %L and %I < %L)', spare, of_id, low, of_id, high) into has_rows;
    if has_begun or has_rows then
      return 'left';
    end if;
    execute format('alter table windlass.%I add constraint %I check (%I < %L or %I >= %L) not valid', spare, guard, of_id, low, of_id, high);
    return 'step';
  end if;
  execute format('alter table windlass.%I validate constraint %I', spare, guard);
  return 'step';
exception
  when lock_not_available then
    return 'busy';
  when check_violation then
    -- A job of that week lies in the default partition. The constraint must not keep further ones out.
    if is_checked is not null then
      execute format('alter table windlass.%I drop constraint %I', spare, guard);
    end if;
    return 'left';
end
$$;

-- The partitions of a table by the range of ids they hold; the default one has none.
create or replace function windlass.partition_bounds(parent text) returns table (name text, low uuid, high uuid)
language sql stable
as $$
  select c.relname::text, coalesce(substring(b.text from $f$FROM \('([0-9a-f-]{36})'\)$f$)::uuid, '00000000-0000-0000-0000-000000000000'),
         coalesce(substring(b.text from $t$TO \('([0-9a-f-]{36})'\)$t$)::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    from pg_inherits i join pg_class c on c.oid = i.inhrelid cross join lateral (select pg_get_expr(c.relpartbound, c.oid) as text) b
   where i.inhparent = format('windlass.%I', parent)::regclass and b.text like 'FOR VALUES%'
$$;

-- Partitions that do not hold the week of their name, this week if it has none, and tables that stand where a partition should.
create or replace function windlass.partition_problems() returns table (name text, problem text)
language sql stable
set timezone = 'UTC'
as $$
  select b.name, format('holds ids from %s to %s, which is not the week of its name; jobs of the rest are in the next or the default partition', b.low, b.high)
    from unnest(array['job', 'history']) p (parent) cross join lateral windlass.partition_bounds(p.parent) b
    cross join lateral (select to_date(substring(b.name from '[0-9]{4}_w[0-9]{2}$'), 'IYYY"_w"IW') as week) w
   where w.week is not null and (b.low, b.high) is distinct from
         (windlass.uuid7_floor(w.week::timestamp at time zone 'UTC'), windlass.uuid7_floor((w.week + 7)::timestamp at time zone 'UTC'))
  union all
  select n.name, 'is not there; jobs of that week are in the default partition, where they stay'
    from unnest(array['job', 'history']) p (parent)
    cross join lateral (select p.parent || '_' || to_char(now() at time zone 'UTC', 'IYYY_"w"IW') as name) n
   where to_regclass(format('windlass.%I', n.name)) is null
  union all
  select n.name, 'is a table but no partition; jobs of that week are in the default partition'
    from unnest(array['job', 'history']) p (parent) cross join generate_series(0, 4) w (ahead)
    cross join lateral (select p.parent || '_' || to_char(now() at time zone 'UTC' + w.ahead * interval '1 week', 'IYYY_"w"IW') as name) n
   where to_regclass(format('windlass.%I', n.name)) is not null
     and not exists (select from windlass.partition_bounds(p.parent) b where b.name = n.name)
$$;
