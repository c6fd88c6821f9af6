-- Deletes the jobs of a large old partition by replacing it (decision 0023). Tables of the same range receive what stays,
-- take the place of the old ones, and those are dropped. Each call does one step in its own transaction and stores it in
-- `retiring`, so the work continues after a crash, from any keeper. Returns the step, the number of jobs that it deleted,
-- and the time until the next call.
--
--   choose    a range with enough jobs past their retention
--   begin     new tables; from here on, triggers note which jobs of the old partitions change
--   copy      decides what stays and copies it, page by page; each page is decided about in one snapshot
--   catch up  repeats what has changed since, and waits until transactions that are older than the copy have ended
--   swap      the rest of the changes, and the exchange, under exclusive locks for milliseconds
--   drop      the old tables, which nobody uses any more
--
-- A copy of a job is written by a transaction that ends before the swap. So a reader whose snapshot is newer than the
-- copy finds every job that stays, before and after the swap.
-- No tenant can keep others' jobs from being deleted: every step reads and writes a bounded number of rows, waits for no lock
-- for long, and while a replacement cannot continue, jobs are deleted one by one (see retire_gives_way and note_failure).
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
  range record;
  reason text;
begin
  step := 'none';
  gone := 0;
  if not windlass.try_gate('retire') then
    return;
  end if;
  perform windlass.keep_ddl_here();
  select * into now_at from windlass.retiring;
  if now_at.step is null then
    perform windlass.drop_emptied();
    select c.low, c.high into range from windlass.retire_choose() c;
    if range.low is null then
      return;
    end if;
    now_at.low := range.low;
    now_at.high := range.high;
  elsif now_at.began_at < clock_timestamp() - interval '10 minutes' then
    perform windlass.retire_gives_way(now_at);
  end if;
  reason := windlass.reason_to_cancel(now_at);
  if reason is not null then
    update windlass.retiring r set step = 'canceled', problem = reason;
    step := 'canceled';
    wait_ms := 0;
    return;
  end if;
  begin
    wait_ms := 0;
    case coalesce(now_at.step, 'none')
      when 'none' then
        perform windlass.retire_begin(now_at.low, now_at.high);
        step := 'begun';
      when 'begun' then
        step := windlass.retire_copy(now_at);
      when 'copied' then
        select s.step, s.gone, s.wait_ms into step, gone, wait_ms from windlass.retire_swap(now_at) s;
      when 'swapped' then
        perform windlass.drop_tables(now_at.old);
        perform windlass.retire_end();
        delete from windlass.problem t where t.duty = 'retire' and t.subject = now_at.low::text;
        step := 'dropped';
      when 'canceled' then
        perform windlass.retire_undo(now_at);
        step := 'undone';
        wait_ms := 60000;
    end case;
    if step not in ('waits', 'busy') then
      update windlass.retiring r set problem = null, tries = 0 where r.problem is not null and r.step <> 'canceled';
    end if;
  exception
    when lock_not_available or deadlock_detected then
      step := 'busy';
      wait_ms := case when now_at.tries < 30 then 1000 else 60000 end;
      if now_at.step is null then
        perform windlass.note_failure(now_at.low, now_at.high);
        perform windlass.note_problem('retire', '00000000-0000-0000-0000-000000000000', now_at.low::text,
          'was not replaced, because a transaction uses it; its jobs are deleted one by one until the next attempt');
      end if;
      update windlass.retiring r set tries = r.tries + 1, problem = 'waits for transactions that use its tables';
    when others then
      reason := sqlerrm;
      perform windlass.raise_server_problem(sqlstate, reason);
      step := 'failed';
      gone := 0;
      wait_ms := 60000;
      if now_at.step is null then
        perform windlass.note_failure(now_at.low, now_at.high);
      end if;
      update windlass.retiring r set tries = r.tries + 1, problem = reason,
        step = case when r.step in ('begun', 'copied') then 'canceled' else r.step end;
      perform windlass.note_problem('retire', '00000000-0000-0000-0000-000000000000', now_at.low::text,
        'a partition was not replaced: ' || reason);
  end;
end
$$;

-- Creates the tables of the range, and triggers that note changes in the old ones. A transaction that has written to an old
-- one must end first; every later one is noted.
-- Lock: SHARE ROW EXCLUSIVE on the old partitions. Before that SHARE UPDATE EXCLUSIVE, which blocks nobody, for long
-- enough that an autovacuum ends: it would otherwise keep the exclusive locks of the swap away. At last, the default
-- partitions if they are large.
create or replace function windlass.retire_begin(of_low uuid, of_high uuid) returns void
language plpgsql
as $$
#variable_conflict use_column
declare
  part record;
  name text;
  news text[] := '{}';
  olds text[] := array(select b.name from windlass.partitions() b where b.low >= of_low and b.high <= of_high);
  large text[] := array(select p from unnest(windlass.partitioned()) p
                         where pg_relation_size(format('windlass.%I', p || '_default')::regclass) > 524288);
  settings text[];
begin
  perform windlass.lock_tables(olds, 'share update exclusive', 3000);
  foreach name in array olds loop
    execute format('alter table windlass.%I set (autovacuum_enabled = false, toast.autovacuum_enabled = false)', name);
  end loop;
  foreach name in array windlass.partitioned() loop
    select c.reloptions into settings from windlass.partition_bounds(name) b
      join pg_class c on c.oid = format('windlass.%I', b.name)::regclass where b.low = of_low;
    news := news || windlass.partition_name(name, of_low);
    perform windlass.make_part(name, news[cardinality(news)], settings);
    -- So that attaching it does not read it.
    execute format('alter table windlass.%1$I add constraint in_range check (%2$I is not null and %2$I >= %3$L and %2$I < %4$L)',
      news[cardinality(news)], windlass.partition_key(name), of_low, of_high);
  end loop;
  perform windlass.lock_tables(olds, 'share row exclusive', 100);
  for part in select b.parent, b.name from windlass.partitions() b where b.name = any (olds) loop
    execute format('create trigger note_change after insert or update or delete on windlass.%I for each row
      execute function windlass.note_change(%L)', part.name, part.parent);
  end loop;
  -- So that attaching does not read the default partition either, if that is large.
  perform windlass.lock_tables(array(select p || '_default' from unnest(large) p), 'access exclusive', 100);
  foreach name in array large loop
    execute format('alter table windlass.%1$I add constraint not_retiring check (%2$I < %3$L or %2$I >= %4$L) not valid',
      name || '_default', windlass.partition_key(name), of_low, of_high);
  end loop;
  insert into windlass.retiring (low, high, old, new, rules, done_to, home)
    values (of_low, of_high, olds, news, windlass.rules_digest(), windlass.first_key(), windlass.home());
  delete from windlass.problem t where t.duty = 'retire' and t.subject = of_low::text;
  insert into windlass.retiring_tenant (tenant_id, digest) select d.tenant_id, d.digest from windlass.tenant_digests() d;
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
