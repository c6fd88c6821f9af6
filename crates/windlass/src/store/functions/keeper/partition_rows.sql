-- Rows in the default partition that belong to a day whose partition does not exist yet. A caller can choose ids of any day: UUIDs of
-- other versions than 7 are not refused by their time (see check_ids), and one of them would otherwise keep that day's partition from
-- being created. So they are moved when it is created, in the same transaction.
-- Up to 5000 rows and 16 MB are moved while the tables are locked. More are large: 18 jobs of one tenant can be. They are moved only while
-- their day has not begun, and without a lock that stops others: a constraint keeps further rows of that day out, their tenant's own
-- changes of these jobs wait, and only attaching the partition locks the tables. Bounded by the time that a statement of a keeper has
-- (15 s; 32 MB took 2.4 s on a busy machine): 100,000 rows and 64 MB. More than that stays, and `problems` says so; when the jobs are
-- deleted, or few enough are left, the next round creates the partition. Such ids cannot be refused instead: of random ones, one in 900 is
-- in a day of the next ten years.
-- A transaction whose one snapshot (repeatable read) is older than the move does not find these jobs from then on: it looks in the new
-- partition, whose rows it cannot see. Its next transaction finds them.
-- Index: none; a scan of the default partition without a lock that stops anybody.

drop function if exists windlass.partition_rows(text, uuid, uuid); -- of earlier builds
create or replace function windlass.partition_key(parent text) returns text
language sql immutable
return case parent when 'job' then 'id' else 'job_id' end;

-- Whether the default partition has rows of this range, whether they are too many or too large to be moved under a lock, and whether
-- they are too many or too large to be moved at all.
create or replace function windlass.rows_of_range(parent text, low uuid, high uuid, out has_rows boolean, out is_large boolean,
  out is_too_much boolean)
language plpgsql
as $$
begin
  -- By the sizes of the columns that can be large; values that are stored out of line are not read for this.
  execute format('select count(*) > 0, count(*) > 5000 or coalesce(sum(r.bytes), 0) > 16777216,
             count(*) > 100000 or coalesce(sum(r.bytes), 0) > 67108864
      from (select %s as bytes from windlass.%I t where %I >= %L and %I < %L limit 100001) r',
    case parent when 'job' then 'pg_column_size(t.payload)'
      when 'progress' then 'coalesce(pg_column_size(t.message), 0)'
      when 'job_log' then 'pg_column_size(t.text)'
      else 'coalesce(pg_column_size(t.result), 0) + coalesce(pg_column_size(t.artifact), 0) + coalesce(pg_column_size(t.error_text), 0)
            + coalesce(pg_column_size(t.stdout_tail), 0) + coalesce(pg_column_size(t.stderr_tail), 0)' end,
    parent || '_default', windlass.partition_key(parent), low, windlass.partition_key(parent), high)
    into has_rows, is_large, is_too_much;
end
$$;

-- Moves them to the table that becomes their partition. Returns how many there were.
create or replace function windlass.move_rows(parent text, part text, low uuid, high uuid) returns integer
language plpgsql
as $$
declare
  moved integer;
begin
  execute format('with moved as (delete from windlass.%I where %I >= %L and %I < %L returning *)
      insert into windlass.%I select * from moved',
    parent || '_default', windlass.partition_key(parent), low, windlass.partition_key(parent), high, part);
  get diagnostics moved = row_count;
  return moved;
end
$$;

-- Notes why a partition is not created, with the tenant that has the most rows of that day.
create or replace function windlass.leave_partition(parent text, part text, low uuid, high uuid) returns void
language plpgsql
as $$
declare
  most record;
begin
  execute format('select t.tenant_id, count(*) as of_tenant, sum(count(*)) over () as of_all from windlass.%I t
       where %I >= %L and %I < %L group by 1 order by 2 desc, 1 limit 1',
    parent || '_default', windlass.partition_key(parent), low, windlass.partition_key(parent), high) into most;
  perform windlass.note_problem('partition', '00000000-0000-0000-0000-000000000000', part,
    format('was not created: the default partition has %s rows of that day, too many or too large to be moved, or is itself too large; '
        'most of them (%s) belong to tenant %s, whose callers chose these job ids. Delete those jobs, or leave them there: '
        'everything works, but deleting old jobs is slower',
      coalesce(most.of_all, 0), coalesce(most.of_tenant, 0), coalesce(most.tenant_id::text, '-')));
end
$$;
