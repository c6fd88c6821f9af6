-- Deletes the jobs of a large old partition by replacing it (decision 0023). Tables of the same range receive what stays,
-- take the place of the old ones, and those are dropped. Each call does one step in its own transaction and stores it in
-- `retiring`, so the work continues after a crash, from any keeper. Returns the step, the number of jobs that it deleted,
-- and the time until the next call.
--
--   choose    a range with enough jobs past their retention
--   begin     new tables; from here on, triggers note which jobs of the old partitions change
--   copy      decides what stays and copies it, in one statement and therefore one snapshot
--   catch up  repeats what has changed since, and waits until transactions that are older than the copy have ended
--   swap      the rest of the changes, and the exchange, under exclusive locks for milliseconds
--   drop      the old tables, which nobody uses any more
--
-- A copy of a job is written by a transaction that ends before the swap. So a reader whose snapshot is newer than the
-- copy finds every job that stays, before and after the swap.
-- Locks: the gate `retire` for each step; see the steps for others. A step that does not get its locks is repeated.
create or replace function windlass.retire(out step text, out gone bigint, out wait_ms integer)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '100ms'
set jit = off
as $$
#variable_conflict use_column
declare
  now_at windlass.retiring;
  reason text;
begin
  step := 'none';
  gone := 0;
  if not windlass.try_gate('retire') then
    return;
  end if;
  perform windlass.keep_ddl_here();
  select * into now_at from windlass.retiring;
  begin
    case coalesce(now_at.step, 'none')
      when 'none' then
        select c.step, c.wait_ms into step, wait_ms from windlass.retire_begin() c;
      when 'begun' then
        step := windlass.retire_copy(now_at);
        wait_ms := 0;
      when 'copied' then
        select s.step, s.gone, s.wait_ms into step, gone, wait_ms from windlass.retire_swap(now_at) s;
      when 'swapped' then
        perform windlass.drop_tables(now_at.old);
        perform windlass.retire_end();
        step := 'dropped';
        wait_ms := 0;
      when 'canceled' then
        perform windlass.retire_undo(now_at);
        step := 'undone';
        wait_ms := 60000;
    end case;
    update windlass.retiring r set problem = null, tries = 0 where r.problem is not null;
  exception
    when lock_not_available or deadlock_detected then
      step := 'busy';
      gone := 0;
      -- Whoever holds the locks may be at it for long, and each attempt delays others.
      wait_ms := case when now_at.step = 'copied' then 10000 else 1000 end;
      update windlass.retiring r set tries = r.tries + 1, problem = 'waits for transactions that use its tables';
    when others then
      reason := sqlerrm;
      perform windlass.raise_server_trouble(sqlstate, reason);
      step := 'failed';
      gone := 0;
      wait_ms := 60000;
      update windlass.retiring r set tries = r.tries + 1, problem = reason,
        step = case when r.step in ('begun', 'copied') then 'canceled' else r.step end;
      perform windlass.note_trouble('retire', '00000000-0000-0000-0000-000000000000',
        coalesce(now_at.low::text, 'begin'), 'a partition was not replaced: ' || reason);
  end;
end
$$;

-- Creates the tables of the chosen range, and triggers that note changes in the old ones. A transaction that has written
-- to an old one must end first; every later one is noted.
-- Lock: SHARE ROW EXCLUSIVE on the old partitions. Before that SHARE UPDATE EXCLUSIVE, which blocks nobody, for long
-- enough that an autovacuum ends: it would otherwise keep the exclusive locks of the swap away.
create or replace function windlass.retire_begin(out step text, out wait_ms integer)
language plpgsql
as $$
#variable_conflict use_column
declare
  range record;
  part record;
  name text;
  names text[] := '{}';
  olds text[];
  settings text[];
begin
  select c.low, c.high into range from windlass.retire_choose() c;
  if range.low is null then
    step := 'none';
    return;
  end if;
  olds := array(select b.name from windlass.partitions() b where b.low >= range.low and b.high <= range.high);
  foreach name in array olds loop
    perform set_config('lock_timeout', '1500ms', true);
    execute format('lock table only windlass.%I in share update exclusive mode', name);
    execute format('alter table windlass.%I set (autovacuum_enabled = false, toast.autovacuum_enabled = false)', name);
  end loop;
  perform set_config('lock_timeout', '100ms', true);
  for part in select b.parent, b.name from windlass.partitions() b where b.low >= range.low and b.high <= range.high loop
    execute format('create trigger note_change after insert or update or delete on windlass.%I for each row
      execute function windlass.note_change(%L)', part.name, part.parent);
  end loop;
  foreach name in array windlass.partitioned() loop
    select c.reloptions into settings from windlass.partition_bounds(name) b
      join pg_class c on c.oid = format('windlass.%I', b.name)::regclass where b.low = range.low;
    names := names || windlass.partition_name(name, range.low);
    perform windlass.make_part(name, names[cardinality(names)], settings);
    -- So that attaching it does not read it.
    execute format('alter table windlass.%1$I add constraint in_range check (%2$I is not null and %2$I >= %3$L and %2$I < %4$L)',
      names[cardinality(names)], windlass.partition_key(name), range.low, range.high);
    -- And not the default partition either, if that is large.
    if pg_relation_size(format('windlass.%I', name || '_default')::regclass) > 524288 then
      execute format('alter table windlass.%1$I add constraint not_retiring check (%2$I < %3$L or %2$I >= %4$L) not valid', name || '_default',
        windlass.partition_key(name), range.low, range.high);
    end if;
  end loop;
  insert into windlass.retiring (low, high, old, new, rules) values (range.low, range.high, olds, names, windlass.rules_digest());
  step := 'begun';
  wait_ms := 0;
end
$$;

-- Notes a change of a job whose partition is being replaced.
create or replace function windlass.note_change() returns trigger
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if tg_argv[0] = 'job' then
    insert into windlass.retiring_change (tenant_id, job_id, is_new)
      values (coalesce(new.tenant_id, old.tenant_id), coalesce(new.id, old.id), tg_op = 'INSERT');
  elsif tg_argv[0] = 'history' then
    insert into windlass.retiring_change (tenant_id, job_id, is_new, lane, status)
      values (coalesce(new.tenant_id, old.tenant_id), coalesce(new.job_id, old.job_id), false, old.lane, old.job_status);
  else
    insert into windlass.retiring_change (tenant_id, job_id, is_new)
      values (coalesce(new.tenant_id, old.tenant_id), coalesce(new.job_id, old.job_id), false);
  end if;
  return null;
end
$$;
