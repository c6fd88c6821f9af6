-- Deletes rows of jobs that retire has deleted, from the tables that it does not replace: the row of an ordering key whose
-- last job is deleted, dependencies between two deleted jobs, instants and cancel requests. Each call reads at most `most`
-- rows of each table by its primary key, from where the last one ended, and rests for an hour after the last row. Ends after
-- two seconds. Returns the largest number deleted from one table.
drop function if exists windlass.prune_leftovers(integer); -- of earlier builds
create or replace function windlass.prune_leftovers(most integer) returns integer
language plpgsql
set jit = off
as $$
#variable_conflict use_column
declare
  began constant timestamptz := clock_timestamp();
  deleted integer;
  most_deleted integer := 0;
  part record;
  last record;
begin
  for part in
    select * from (values
      ('ordering', 'ordering_key', 'text', 'not exists (select from windlass.job b where b.tenant_id = t.tenant_id and b.id = t.last_job_id)
          and not exists (select from windlass.dependency d where d.tenant_id = t.tenant_id and d.job_id = t.last_job_id)'),
      ('dependency', 'needs_job_id', 'uuid', 'not exists (select from windlass.job b where b.tenant_id = t.tenant_id and b.id = t.job_id)
          and not exists (select from windlass.job b where b.tenant_id = t.tenant_id and b.id = t.needs_job_id)'),
      ('expiry', 'job_id', 'uuid', 'not exists (select from windlass.job b where b.tenant_id = t.tenant_id and b.id = t.job_id)'),
      ('cancel_request', 'job_id', 'uuid', 'not exists (select from windlass.job b where b.tenant_id = t.tenant_id and b.id = t.job_id)')
      ) p (of_table, key, type, is_left)
  loop
    exit when clock_timestamp() - began > interval '2 s';
    insert into windlass.leftover_mark (of_table) values (part.of_table) on conflict do nothing;
    continue when exists (select from windlass.leftover_mark m where m.of_table = part.of_table
                             and m.passed_at between clock_timestamp() - interval '1 hour' and clock_timestamp());
    execute format($q$
      with mark as (
        select m.at_tenant, coalesce(nullif(m.at_key, ''), %5$L)::%3$s as at_key from windlass.leftover_mark m where m.of_table = %1$L),
      page as materialized (
        select t.ctid, t.tenant_id, t.%2$I as key from windlass.%1$I t, mark m
         where (t.tenant_id, t.%2$I) > (m.at_tenant, m.at_key) order by t.tenant_id, t.%2$I limit $1),
      left_over as materialized (
        select t.ctid from windlass.%1$I t where t.ctid = any (array(select p.ctid from page p)) and %4$s for update skip locked)
      select p.tenant_id, p.key::text as key, (select count(*) from page) as found, array(select l.ctid from left_over l) as locked
        from page p order by p.tenant_id desc, p.key desc limit 1
      $q$, part.of_table, part.key, part.type, part.is_left,
      case part.type when 'uuid' then '00000000-0000-0000-0000-000000000000' else '' end) into last using most;
    -- Read again, under the locks: a job may have taken the ordering key after the snapshot of the first statement.
    execute format('delete from windlass.%I t where t.ctid = any ($1) and %s', part.of_table, part.is_left) using last.locked;
    get diagnostics deleted = row_count;
    most_deleted := greatest(most_deleted, deleted);
    if last.found >= most then
      update windlass.leftover_mark m set at_tenant = last.tenant_id, at_key = last.key where m.of_table = part.of_table;
    else
      update windlass.leftover_mark m set at_tenant = '00000000-0000-0000-0000-000000000000', at_key = '', passed_at = clock_timestamp()
       where m.of_table = part.of_table;
    end if;
  end loop;
  return most_deleted;
end
$$;
