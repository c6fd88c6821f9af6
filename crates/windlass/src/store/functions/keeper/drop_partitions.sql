-- Drops the empty partitions of past ranges, those of all tables together. Returns how many ranges.
-- Lock order: the parents, then the partitions, which are then checked again, because a job may have committed into one. All
-- readers and writers of the tables queue behind the first lock while it waits, so a round ends at the first lock that is
-- not available, and the next try is ten minutes later (see was_busy): an open transaction would otherwise stop all tenants
-- again and again. Several are dropped while the locks are held, but for no longer than 50 ms.
-- Trap: whether a table is empty is known only when all its dead rows have been read. So a table of more than 4 MB is left,
-- until a vacuum has truncated it or retire has replaced it.
-- Trap: every login that can use the schema can create a view on a partition that it may not read, and then the partition
-- cannot be dropped. That range is left, `problems` names the view, and the other partitions are dropped.
create or replace function windlass.drop_old_partitions() returns integer
language plpgsql
as $$
declare
  past record;
  part text;
  dropped integer := 0;
  locked_at timestamptz;
  reason text;
  blocked_by text;
begin
  if windlass.was_busy(interval '10 minutes') then
    return 0;
  end if;
  for past in
    select b.low, b.high, array_agg(b.name) as parts from windlass.partitions() b
     where b.high < windlass.uuid7_floor(now() - interval '1 hour') -- clocks differ
       and not exists (select from windlass.retiring r where r.low < b.high and r.high > b.low)
     group by b.low, b.high order by b.low
  loop
    exit when clock_timestamp() - locked_at > interval '50 ms';
    continue when not windlass.are_empty(past.parts);
    begin
      locked_at := coalesce(locked_at, clock_timestamp());
      perform windlass.lock_parents(past.parts);
      if windlass.are_empty(past.parts) then
        foreach part in array past.parts loop
          execute format('drop table windlass.%I', part);
          delete from windlass.problem t where t.duty = 'partition' and t.subject = part;
        end loop;
        delete from windlass.partition_look l where l.low = past.low;
        dropped := dropped + 1;
      end if;
    exception
      when lock_not_available then
        perform windlass.note_busy();
        return dropped;
      when others then
        get stacked diagnostics reason = message_text, blocked_by = pg_exception_detail;
        perform windlass.raise_server_problem(sqlstate, reason);
        perform windlass.note_problem('partition', '00000000-0000-0000-0000-000000000000', part,
          format('is empty and was not dropped: %s', coalesce(nullif(blocked_by, ''), reason)));
    end;
  end loop;
  return dropped;
end
$$;

-- Tables that are large are not read: their rows may all be dead.
create or replace function windlass.are_empty(parts text[]) returns boolean
language plpgsql
as $$
declare
  part text;
  is_empty boolean;
begin
  foreach part in array parts loop
    execute format('select pg_relation_size(%L) <= 4194304 and not exists (select from windlass.%I)',
      'windlass.' || quote_ident(part), part) into is_empty;
    if not is_empty then
      return false;
    end if;
  end loop;
  return true;
end
$$;

-- Drops tables that are not partitions. One that a view of somebody depends on is emptied and marked instead, so that nobody can keep
-- retention from continuing, and `problems` names the view. drop_emptied drops it later.
create or replace function windlass.drop_tables(names text[]) returns void
language plpgsql
as $$
declare
  name text;
  blocked_by text;
begin
  foreach name in array names loop
    begin
      execute format('drop table if exists windlass.%I', name);
    exception when dependent_objects_still_exist then
      get stacked diagnostics blocked_by = pg_exception_detail;
      execute format('truncate windlass.%I', name);
      execute format('comment on table windlass.%I is %L', name, windlass.emptied_mark());
      perform windlass.note_problem('retire', '00000000-0000-0000-0000-000000000000', name,
        format('is no partition any more and was emptied, but not dropped: %s', blocked_by));
    end;
  end loop;
end
$$;

-- Drops the marked tables on which nothing depends any more.
create or replace function windlass.drop_emptied() returns void
language plpgsql
as $$
declare
  name text;
begin
  for name in
    select c.relname from pg_class c
     where c.relnamespace = 'windlass'::regnamespace and c.relkind = 'r' and not c.relispartition
       and obj_description(c.oid, 'pg_class') = windlass.emptied_mark()
     order by c.relname limit 40
  loop
    begin
      execute format('drop table windlass.%I', name);
      delete from windlass.problem t where t.duty = 'retire' and t.subject = name;
    exception when dependent_objects_still_exist or lock_not_available then
      null;
    end;
  end loop;
end
$$;
