-- Decides which jobs of the range stay, and copies them. Works for about a second per call: pages of 20,000 jobs are decided
-- about, each in one statement and therefore one snapshot, and then copied, 16 MB at once. Holds no lock that anybody waits
-- for. A job that changes meanwhile is noted by triggers, and retire_catch_up repeats the change: a page deletes only the notes
-- that its snapshot contains, of jobs that it decides about.
create or replace function windlass.retire_copy(of_range windlass.retiring) returns text
language plpgsql
as $$
declare
  began constant timestamptz := clock_timestamp();
  name text;
begin
  perform windlass.check_read_committed();
  -- The default partitions cannot contain such ids, but only a valid constraint spares the swap from reading them.
  for name in select p || '_default' from unnest(windlass.partitioned()) p loop
    if exists (select from pg_constraint c where c.conrelid = format('windlass.%I', name)::regclass and c.conname = 'not_retiring'
                  and not c.convalidated) then
      execute format('alter table windlass.%I validate constraint not_retiring', name);
      return 'validated';
    end if;
  end loop;
  loop
    if exists (select from windlass.retiring_back) then
      perform windlass.retire_bring_back(of_range, 5000, 16777216);
    elsif of_range.done_to <> windlass.last_key() then
      of_range.done_to := windlass.retire_decide(of_range, 20000);
    else
      foreach name in array of_range.new loop
        execute format('analyze windlass.%I', name);
      end loop;
      update windlass.retiring r set step = 'copied';
      return 'copied';
    end if;
    if clock_timestamp() - began > interval '1 s' then
      return 'copying';
    end if;
  end loop;
end
$$;

-- Decides about the next `most` jobs: those that stay are to be copied, the others are counted. A body that is neither
-- unfinished nor ended would be damage: it stays. Returns the key of the last one.
create or replace function windlass.retire_decide(of_range windlass.retiring, most integer) returns uuid[]
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
set enable_nestloop = off
set jit = off
as $$
declare
  to_key uuid[] := windlass.page_end(of_range.low, of_range.high, of_range.done_to, most);
begin
  execute format($q$
    with seen as (
      delete from windlass.retiring_change c
       where (c.tenant_id, c.job_id) > (%3$L, %4$L) and (c.tenant_id, c.job_id) <= (%5$L, %6$L)),
    goes as materialized (
      select g.tenant_id, g.job_id, g.lane, g.status
        from windlass.retire_goes(%1$L, %2$L, array[%3$L, %4$L]::uuid[], array[%5$L, %6$L]::uuid[]) g),
    stay as (
      insert into windlass.retiring_back (tenant_id, job_id)
        select b.tenant_id, b.id from windlass.job b
         where b.id >= %1$L and b.id < %2$L and (b.tenant_id, b.id) > (%3$L, %4$L) and (b.tenant_id, b.id) <= (%5$L, %6$L)
           and not exists (select from goes g where g.tenant_id = b.tenant_id and g.job_id = b.id)
        on conflict do nothing)
    insert into windlass.retiring_gone as o (tenant_id, lane, status, jobs)
      select g.tenant_id, g.lane, g.status, count(*) from goes g group by g.tenant_id, g.lane, g.status
      on conflict (tenant_id, lane, status) do update set jobs = o.jobs + excluded.jobs
    $q$, of_range.low, of_range.high, of_range.done_to[1], of_range.done_to[2], to_key[1], to_key[2]);
  update windlass.retiring r set done_to = to_key;
  return to_key;
end
$$;

-- Makes the rows of jobs in `retiring_back` the same in the new tables as in the old ones: of at most `most` jobs, and no more
-- after those that have most_bytes together. Sizes are those on disk; values that are stored out of line are not read for
-- them. Of one tenant, or of all.
-- Index: the primary keys.
create or replace function windlass.retire_bring_back(
  of_range windlass.retiring, most integer, most_bytes bigint, of_tenant uuid default null) returns void
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  tenants uuid[];
  jobs uuid[];
  parent text;
  place integer := 0;
begin
  execute format($q$
    with next as materialized (
      select k.tenant_id, k.job_id from windlass.retiring_back k where %3$s order by k.tenant_id, k.job_id limit %4$s),
    sized as (
      select n.tenant_id, n.job_id,
             coalesce((select pg_column_size(b.payload) from windlass.job b
                        where b.tenant_id = n.tenant_id and b.id = n.job_id and b.id >= %1$L and b.id < %2$L), 0)
             + coalesce((select sum(coalesce(pg_column_size(h.result), 0) + coalesce(pg_column_size(h.artifact), 0)
                                    + coalesce(pg_column_size(h.error_text), 0) + coalesce(pg_column_size(h.stdout_tail), 0)
                                    + coalesce(pg_column_size(h.stderr_tail), 0))
                           from windlass.history h
                          where h.tenant_id = n.tenant_id and h.job_id = n.job_id and h.job_id >= %1$L and h.job_id < %2$L), 0)
             + coalesce((select sum(pg_column_size(o.text)) from windlass.job_log o
                          where o.tenant_id = n.tenant_id and o.job_id = n.job_id and o.job_id >= %1$L and o.job_id < %2$L), 0) as bytes
        from next n),
    summed as (select s.*, sum(s.bytes) over (order by s.tenant_id, s.job_id) - s.bytes as before from sized s)
    select array_agg(s.tenant_id), array_agg(s.job_id) from summed s where s.before <= %5$s
    $q$, of_range.low, of_range.high, case when of_tenant is null then 'true' else format('k.tenant_id = %L', of_tenant) end, most,
    most_bytes) into tenants, jobs;
  if tenants is null then
    return;
  end if;
  foreach parent in array windlass.partitioned() loop
    place := place + 1;
    execute format('delete from windlass.%I n using unnest($1, $2) k (tenant_id, job_id)
        where n.tenant_id = k.tenant_id and n.%I = k.job_id', of_range.new[place], windlass.partition_key(parent)) using tenants, jobs;
    execute format('insert into windlass.%1$I select o.* from windlass.%2$I o join unnest($1, $2) k (tenant_id, job_id)
         on k.tenant_id = o.tenant_id and k.job_id = o.%3$I where o.%3$I >= %4$L and o.%3$I < %5$L', of_range.new[place], parent,
      windlass.partition_key(parent), of_range.low, of_range.high) using tenants, jobs;
  end loop;
  delete from windlass.retiring_back b using unnest(tenants, jobs) k (tenant_id, job_id)
   where b.tenant_id = k.tenant_id and b.job_id = k.job_id;
end
$$;
