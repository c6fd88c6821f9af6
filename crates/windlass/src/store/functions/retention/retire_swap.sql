-- The steps after the copy: catches up, waits until the transactions that were open when the copy ended have ended (for a
-- minute at most), and exchanges the tables. Cancels if a rule has changed since the decision, or if the database is a
-- restored copy: transaction ids start again there, so new dependencies cannot be distinguished from old ones.
-- Lock order: the gate `retire holds`, so that no legal hold is placed meanwhile; the gate `prune`; the parents, the default partitions and
-- the old partitions, ACCESS EXCLUSIVE, all within 100 ms or not at all. Under these locks nothing is read that grows with
-- the partition, and at most 1000 changes are repeated.
create or replace function windlass.retire_swap(of_range windlass.retiring, out step text, out gone bigint, out wait_ms integer)
language plpgsql
as $$
#variable_conflict use_column
declare
  caught record;
begin
  perform windlass.need_read_committed();
  gone := 0;
  wait_ms := 0;
  if of_range.rules <> windlass.rules_digest() then
    update windlass.retiring r set step = 'canceled', problem = 'a rule was changed';
    step := 'canceled';
    return;
  end if;
  if of_range.home is distinct from windlass.home() then
    update windlass.retiring r set step = 'canceled', problem = 'the database was restored';
    step := 'canceled';
    return;
  end if;
  if of_range.wait_until is null then
    select * into caught from windlass.retire_catch_up(of_range, 10000);
    step := 'caught up';
    if not caught.has_more then
      update windlass.retiring r set wait_until = clock_timestamp() + interval '1 minute', waits_for = windlass.open_transactions();
    end if;
    return;
  end if;
  if of_range.waits_for && windlass.open_transactions() and clock_timestamp() < of_range.wait_until then
    step := 'waits';
    wait_ms := 200;
    return;
  end if;
  if (select count(*) > 1000 from (select from windlass.retiring_change limit 1001) c)
     or exists (select from windlass.legal_hold h where not exists (
          select from windlass.retiring_hold k where k.tenant_id = h.tenant_id and k.id = h.id)) then
    perform windlass.retire_catch_up(of_range, 10000);
    step := 'caught up';
    return;
  end if;
  if not (windlass.try_gate('retire holds') and windlass.try_gate('prune')) then
    step := 'waits'; -- a hold is being placed, or prune writes the marks that the swap changes too
    wait_ms := 200;
    return;
  end if;
  perform windlass.lock_parents(of_range.old);
  if exists (select from windlass.legal_hold h where not exists (
       select from windlass.retiring_hold k where k.tenant_id = h.tenant_id and k.id = h.id)) then
    step := 'caught up';
    return; -- a hold was placed in the last milliseconds
  end if;
  select * into caught from windlass.retire_catch_up(of_range, 1000);
  if caught.has_more then
    step := 'caught up';
    return;
  end if;
  perform windlass.exchange_partitions(of_range);
  gone := windlass.count_gone();
  update windlass.retiring r set step = 'swapped';
  step := 'swapped';
end
$$;

-- Differs in a restored copy of the database: the transaction that wrote a row that never changes.
create or replace function windlass.home() returns text
language sql stable
as $$
  select g.xmin::text from windlass.gate g where g.of_id = '00000000-0000-0000-0000-000000000000' and g.purpose = 'retire'
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
    if is_empty then
      execute format('drop table windlass.%I', of_range.new[place]);
    else
      execute format('alter table windlass.%I attach partition windlass.%I for values from (%L) to (%L)', parent, of_range.new[place],
        of_range.low, of_range.high);
      execute format('alter table windlass.%I drop constraint in_range', of_range.new[place]);
    end if;
  end loop;
  perform windlass.drop_guards();
  delete from windlass.partition_look l where l.low >= of_range.low and l.high <= of_range.high;
  if not is_empty then
    insert into windlass.partition_look (low, high, jobs, due)
      select s.low, s.high, s.jobs, 0 from windlass.partition_sizes() s where s.low = of_range.low;
  end if;
end
$$;

-- Updates the counters by the jobs that the swap has deleted, and the progress of their rules. Returns their number.
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
      from windlass.retiring_gone g where g.jobs > 0 group by g.tenant_id, g.lane;
  insert into windlass.keeper_mark as m (duty, reached, moved)
    select 'prune ' || l.definition_id || ' ' || windlass.state_name(g.status)
             || case when exists (select from windlass.retention o join windlass.job_definitions d on d.id = l.definition_id
                                   where o.tenant_id = g.tenant_id and o.status = windlass.state_name(g.status)
                                     and o.definition_key in (d.key, '*')) then ' ' || g.tenant_id else '' end,
           '-infinity', sum(g.jobs)
      from windlass.retiring_gone g join windlass.lane l on l.tenant_id = g.tenant_id and l.id = g.lane where g.jobs > 0 group by 1
    on conflict (duty) do update set moved = m.moved + excluded.moved, updated_at = clock_timestamp();
  select coalesce(sum(g.jobs), 0) into gone from windlass.retiring_gone g;
  return gone;
end
$$;
