-- One step towards the partition of a day. Returns `there`, `made`, `moved` (made, with rows of the default partition),
-- `step` (call again in another transaction), `busy` (a lock was not available, now or a moment ago) or `left` (the day's
-- jobs stay in the default partition, and `problems` has the reason).
--
-- Trap: attaching a partition scans the default partition under an exclusive lock, to prove that none of its rows
-- belongs to the new one. Ids chosen by callers accumulate there, so above a small size the proof comes first: a
-- constraint that is not valid yet (a short lock), then its validation (a scan that does not block), then the partition
-- (no scan). In between the default partition refuses ids of that day, so this is done only for future days, which
-- have few jobs yet. If other partitions cover a part of the day, the rest is created. Rows of the day that are in the
-- default partition are moved in the same transaction (see partition_rows.sql).
create or replace function windlass.make_partition(parent text, day date) returns text
language plpgsql
set timezone = 'UTC'
as $$
declare
  spare text := parent || '_default';
  guard text := 'not_' || to_char(day, 'YYYYMMDD');
  low uuid := windlass.uuid7_floor(day::timestamp at time zone 'UTC');
  high uuid := windlass.uuid7_floor((day + 1)::timestamp at time zone 'UTC');
  part text;
  other record;
  is_checked boolean;
  pages bigint := pg_relation_size(format('windlass.%I', parent || '_default')::regclass) / 8192;
  has_begun boolean := (day - 1)::timestamp at time zone 'UTC' <= clock_timestamp(); -- a day early: clocks differ
  has_rows boolean;
  is_large boolean := false;
  is_too_much boolean;
  tries integer;
  must_lock boolean := false;
  moved integer := 0;
begin
  for other in select * from windlass.partition_bounds(parent) b order by b.low loop
    if other.high > low and (other.low <= low or other.high <= windlass.uuid7_floor(clock_timestamp())) then
      low := other.high; -- a gap in the past was emptied by retention
    elsif other.low > low and other.low < high then
      high := other.low;
    end if;
  end loop;
  part := parent || '_' || to_char(day, 'YYYYMMDD');
  if low >= high or to_regclass(format('windlass.%I', part)) is not null and windlass.uuid7_instant(low) = day::timestamptz then
    return 'there'; -- other partitions cover the whole day, or a table has its name
  end if;
  if windlass.was_busy(case when windlass.uuid7_instant(low) <= clock_timestamp() + interval '1 hour'
                            then interval '0.9 s' else interval '10 minutes' end) then
    return 'busy';
  end if;
  part := windlass.partition_name(parent, low);
  if exists (select from windlass.problem t where t.duty = 'partition' and t.subject = part
                and t.seen_at between clock_timestamp() - interval '1 hour' and clock_timestamp()) then
    return 'there'; -- it was left a moment ago, and finding out reads the default partition
  end if;
  select c.convalidated into is_checked from pg_constraint c
   where c.conrelid = format('windlass.%I', spare)::regclass and c.conname = guard;
  if is_checked then
    has_rows := false;
  else
    select r.has_rows, r.is_large, r.is_too_much into has_rows, is_large, is_too_much from windlass.rows_of_range(parent, low, high) r;
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
  perform windlass.make_part(parent, part);
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
  delete from windlass.problem t where t.duty = 'partition' and t.subject = part;
  return case when moved > 0 then 'moved' else 'made' end;
exception
  when lock_not_available then
    perform windlass.note_busy();
    return 'busy';
  when check_violation then
    -- A job of that day was enqueued a moment ago. The constraint must not keep further ones out.
    if is_checked is not null then
      execute format('alter table windlass.%I drop constraint %I', spare, guard);
    end if;
    return 'busy';
end
$$;

-- Whether a lock on partitioned tables was not available within this time. Whoever reads or writes a job queues behind each
-- try, and every worker process may have a keeper: so all keepers together try a partition that is needed within an hour once
-- a second, narrower ones every ten seconds, and everything else every ten minutes.
create or replace function windlass.was_busy(within interval) returns boolean
language sql stable
as $$
  select coalesce((select r.busy_at between clock_timestamp() - within and clock_timestamp() from windlass.partition_rate r), false)
$$;

create or replace function windlass.note_busy() returns void
language sql
as $$
  update windlass.partition_rate r set busy_at = clock_timestamp()
$$;
