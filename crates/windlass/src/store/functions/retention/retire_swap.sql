-- The steps after the copy: catches up, waits until the transactions that were open when the copy ended have ended (for a
-- minute at most), and exchanges the tables. Cancels if the rule of a definition has changed since the decision, or if the
-- database is a restored copy: transaction ids start again there, so new dependencies cannot be distinguished from old ones.
-- Lock order: the gate `retire holds`, so that no legal hold is placed meanwhile; the gate `prune`; the parents, the default
-- partitions and the old partitions, ACCESS EXCLUSIVE, all within 100 ms or not at all. Under these locks nothing is read that
-- grows with the partition: at most 500 changes are repeated, and 1 MB is copied.
create or replace function windlass.retire_swap(of_range windlass.retiring, out step text, out gone bigint, out wait_ms integer)
language plpgsql
as $$
#variable_conflict use_column
declare
  has_more boolean;
begin
  perform windlass.check_read_committed();
  gone := 0;
  wait_ms := 0;
  step := 'caught up';
  has_more := windlass.retire_catch_up(of_range, 5000, 16777216, false);
  has_more := windlass.retire_look_again(of_range, 20000) or has_more;
  if has_more and (of_range.wait_until is null or exists (select from windlass.retiring_tenant t where t.at_id is not null)
      or (select count(*) > 500 from (select from windlass.retiring_change limit 501) c)) then
    return;
  elsif of_range.wait_until is null then
    update windlass.retiring r set wait_until = clock_timestamp() + interval '1 minute', waits_for = windlass.open_transactions();
    return;
  elsif of_range.waits_for && windlass.open_transactions()
        and of_range.wait_until - clock_timestamp() between '0' and interval '1 minute' then
    step := 'waits';
    wait_ms := 200;
    return;
  elsif not windlass.try_gate('retire holds') then
    update windlass.retiring r set problem = 'waits for a transaction that places a legal hold';
    step := 'waits';
    wait_ms := 200;
    return;
  elsif not windlass.try_gate('prune') then -- it writes the marks that the swap changes too
    step := 'waits';
    wait_ms := 200;
    return;
  elsif windlass.retire_look_again(of_range, 20000) then
    return; -- a hold was placed a moment ago
  end if;
  select * into of_range from windlass.retiring;
  begin
    gone := windlass.count_gone();
    perform windlass.lock_parents(of_range.old);
    if windlass.retire_catch_up(of_range, 500, 1048576, true) then
      raise exception 'waits until fewer of its jobs change' using errcode = '55P03';
    end if;
    perform windlass.exchange_partitions(of_range);
    gone := gone + windlass.count_gone(); -- of those that have just come back, a negative number
    update windlass.retiring r set step = 'swapped';
    step := 'swapped';
  exception when lock_not_available or deadlock_detected then
    step := 'busy';
    gone := 0;
    -- Whoever holds the locks may be at it for long, and each attempt delays others.
    wait_ms := case when of_range.tries < 30 then 10000 else 60000 end;
    update windlass.retiring r set tries = r.tries + 1,
      problem = case when sqlerrm like 'waits %' then sqlerrm else 'waits for transactions that use its tables' end;
  end;
end
$$;

-- Differs in a restored copy of the database: the transaction that wrote a row that never changes.
create or replace function windlass.home() returns text
language sql stable
as $$
  select g.xmin::text from windlass.gate g where g.of_id = '00000000-0000-0000-0000-000000000000' and g.purpose = 'retire'
$$;

-- Why the replacement is to be canceled, or null. One that only waits for locks is not: another one would wait for them, too.
create or replace function windlass.reason_to_cancel(now_at windlass.retiring) returns text
language sql stable
as $$
  select case
    when (now_at.step in ('begun', 'copied')) is not true then null
    when now_at.rules <> windlass.rules_digest() then 'the rule of a definition was changed'
    when now_at.home is distinct from windlass.home() then 'the database was restored'
    when now_at.began_at < clock_timestamp() - interval '1 hour' and now_at.problem is null then 'it took more than an hour' end
$$;

-- The transactions of this database that may hold a snapshot, except this one and autovacuum.
create or replace function windlass.open_transactions() returns text[]
language sql stable
as $$
  select coalesce(array_agg(l.virtualxid), '{}') from pg_locks l join pg_stat_activity a on a.pid = l.pid
   where l.locktype = 'virtualxid' and l.granted and l.mode = 'ExclusiveLock' and l.pid <> pg_backend_pid()
     and a.datname = current_database() and a.usesysid is not null
$$;

-- Exchanges the old partitions for the new tables. If nothing stays, none takes their place: ids of that range, which an
-- application may still choose, belong to the default partition then.
create or replace function windlass.exchange_partitions(of_range windlass.retiring) returns void
language plpgsql
as $$
declare
  part record;
  parent text;
  place integer := 0;
  is_empty boolean := windlass.are_empty(of_range.new);
begin
  for part in select b.parent, b.name from windlass.partitions() b where b.name = any (of_range.old) loop
    execute format('alter table windlass.%I detach partition windlass.%I', part.parent, part.name);
  end loop;
  foreach parent in array windlass.partitioned() loop
    place := place + 1;
    if not is_empty then
      execute format('alter table windlass.%I attach partition windlass.%I for values from (%L) to (%L)', parent, of_range.new[place],
        of_range.low, of_range.high);
      execute format('alter table windlass.%I drop constraint in_range', of_range.new[place]);
    end if;
  end loop;
  if is_empty then
    perform windlass.drop_tables(of_range.new);
  end if;
  perform windlass.drop_guards();
  delete from windlass.partition_look l where l.low >= of_range.low and l.high <= of_range.high;
  if not is_empty then
    perform windlass.note_look(of_range.low, of_range.high, s.jobs, 0, true) from windlass.partition_sizes() s where s.low = of_range.low;
  end if;
end
$$;

-- Updates the counters by the jobs that the swap deletes, and the progress of their rules. Returns their number. The swap
-- calls it before it takes its locks, because there may be many lanes, and again for what has changed until then.
create or replace function windlass.count_gone() returns bigint
language plpgsql
as $$
#variable_conflict use_column
declare
  gone bigint;
begin
  insert into windlass.tally (tenant_id, lane, succeeded, failed, dead_letter, canceled, purged)
    select g.tenant_id, g.lane, -coalesce(sum(g.jobs) filter (where g.status = windlass.state_code('succeeded')), 0),
           -coalesce(sum(g.jobs) filter (where g.status = windlass.state_code('failed')), 0),
           -coalesce(sum(g.jobs) filter (where g.status = windlass.state_code('dead_letter')), 0),
           -coalesce(sum(g.jobs) filter (where g.status = windlass.state_code('canceled')), 0), sum(g.jobs)
      from windlass.retiring_gone g where g.jobs <> 0 group by g.tenant_id, g.lane;
  perform windlass.count_pruned(array_agg(g.tenant_id), array_agg(g.lane), array_agg(g.status), array_agg(g.jobs))
     from windlass.retiring_gone g where g.jobs <> 0 having count(*) > 0;
  select coalesce(sum(g.jobs), 0) into gone from windlass.retiring_gone g;
  update windlass.retiring_gone g set jobs = 0 where g.jobs <> 0;
  return gone;
end
$$;

-- Adds to the number of jobs that each rule has deleted.
create or replace function windlass.count_pruned(tenants uuid[], lanes integer[], statuses smallint[], counts bigint[]) returns void
language sql
as $$
  insert into windlass.keeper_mark as m (duty, reached, moved)
    select 'prune ' || l.definition_id || ' ' || windlass.state_name(g.status)
             || case when exists (select from windlass.retention o join windlass.job_definitions d on d.id = l.definition_id
                                   where o.tenant_id = g.tenant_id and o.status = windlass.state_name(g.status)
                                     and o.definition_key in (d.key, '*')) then ' ' || g.tenant_id else '' end,
           '-infinity', sum(g.jobs)
      from unnest(tenants, lanes, statuses, counts) g (tenant_id, lane, status, jobs)
      join windlass.lane l on l.tenant_id = g.tenant_id and l.id = g.lane group by 1
    on conflict (duty) do update set moved = m.moved + excluded.moved, updated_at = clock_timestamp()
$$;
