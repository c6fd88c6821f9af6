-- Decides which jobs of the range stay, and copies them: in one statement, so that no job can move between the tables
-- of unfinished jobs and history while they are read. The decision about a job that changes later is corrected by
-- retire_catch_up. Stores how many jobs go, by lane and status, and returns jobs to their rule (see prune_passed) that
-- stay past their retention because of an artifact or a blocked job.
-- A body that is neither unfinished nor ended would be damage: it stays.
-- Reads the bodies and the history of the range once each; holds no lock that anybody waits for.
create or replace function windlass.retire_copy(of_range windlass.retiring) returns text
language plpgsql
set enable_nestloop = off
set enable_mergejoin = off
set enable_sort = off
set work_mem = '64MB'
set max_parallel_workers_per_gather = 0
as $$
#variable_conflict use_column
declare
  name text;
  known xid8 := pg_snapshot_xmin(pg_current_snapshot());
  had bigint;
  kept bigint;
  going bigint;
begin
  perform windlass.need_read_committed();
  -- The default partitions cannot contain such ids, but only a valid constraint spares the swap from reading them.
  for name in select p || '_default' from unnest(windlass.partitioned()) p loop
    if exists (select from pg_constraint c where c.conrelid = format('windlass.%I', name)::regclass and c.conname = 'not_retiring'
                  and not c.convalidated) then
      execute format('alter table windlass.%I validate constraint not_retiring', name);
      return 'validated';
    end if;
  end loop;
  perform windlass.fill_keep();
  insert into windlass.retiring_hold (tenant_id, id) select h.tenant_id, h.id from windlass.legal_hold h;
  execute format($q$
    with protected as materialized (select p.tenant_id, p.job_id from windlass.retire_protected(%1$L, %2$L) p),
    stay as materialized (
      select p.tenant_id, p.job_id from protected p
      union
      select h.tenant_id, h.job_id from windlass.history h
        left join windlass.retiring_keep k on k.tenant_id = h.tenant_id and k.lane = h.lane and k.status = h.job_status
       where h.job_id >= %1$L and h.job_id < %2$L and h.job_status is not null
         and (k.keep is null or h.finished_at > clock_timestamp() - k.keep or h.artifact is not null and k.has_clean_up)),
    bodies as (
      insert into windlass.%3$I select b.* from windlass.job b
       where b.id >= %1$L and b.id < %2$L and (b.tenant_id, b.id) in (select s.tenant_id, s.job_id from stay s) returning 1),
    attempts as (
      insert into windlass.%4$I select h.* from windlass.history h
       where h.job_id >= %1$L and h.job_id < %2$L and (h.tenant_id, h.job_id) in (select s.tenant_id, s.job_id from stay s)),
    reports as (
      insert into windlass.%5$I select r.* from windlass.progress r
       where r.job_id >= %1$L and r.job_id < %2$L and (r.tenant_id, r.job_id) in (select s.tenant_id, s.job_id from stay s)),
    logs as (
      insert into windlass.%6$I select o.* from windlass.job_log o
       where o.job_id >= %1$L and o.job_id < %2$L and (o.tenant_id, o.job_id) in (select s.tenant_id, s.job_id from stay s)),
    seen as (delete from windlass.retiring_change), -- the changes that this snapshot contains
    passed as (
      insert into windlass.prune_passed (tenant_id, job_id)
        select h.tenant_id, h.job_id from windlass.history h
          join windlass.retiring_keep k on k.tenant_id = h.tenant_id and k.lane = h.lane and k.status = h.job_status
         where h.job_id >= %1$L and h.job_id < %2$L and h.finished_at <= clock_timestamp() - k.keep
           and (exists (select from windlass.retiring_keep c where c.has_clean_up) or exists (select from windlass.dependency))
           and (h.artifact is not null and k.has_clean_up
                or (h.tenant_id, h.job_id) in (select n.tenant_id, n.job_id from windlass.retire_needed(%1$L, %2$L, '0') n))
           and not exists (select from windlass.purge_wait w where w.tenant_id = h.tenant_id and w.job_id = h.job_id)
        on conflict do nothing),
    gone as (
      insert into windlass.retiring_gone (tenant_id, lane, status, jobs)
        select h.tenant_id, h.lane, h.job_status, count(*) from windlass.history h
         where h.job_id >= %1$L and h.job_id < %2$L and h.job_status is not null
           and not exists (select from stay s where s.tenant_id = h.tenant_id and s.job_id = h.job_id)
         group by h.tenant_id, h.lane, h.job_status
        returning jobs)
    select (select count(*) from windlass.job b where b.id >= %1$L and b.id < %2$L), (select count(*) from bodies),
           (select coalesce(sum(g.jobs), 0) from gone g)
    $q$, of_range.low, of_range.high, of_range.new[1], of_range.new[2], of_range.new[3], of_range.new[4]) into had, kept, going;
  if had <> kept + going then
    insert into windlass.retiring_back (tenant_id, job_id)
      select b.tenant_id, b.id from windlass.job b
       where b.id >= of_range.low and b.id < of_range.high
         and not exists (select from windlass.history h where h.tenant_id = b.tenant_id and h.job_id = b.id and h.job_status is not null);
    perform windlass.retire_bring_back(of_range);
  end if;
  foreach name in array of_range.new loop
    execute format('analyze windlass.%I', name);
  end loop;
  update windlass.retiring r set step = 'copied', known_xid = known, home = windlass.home();
  return 'copied';
end
$$;

-- Repeats in the new tables what has happened to jobs of the range since the copy: at most `most` changes that triggers
-- noted, all new dependencies, and all new legal holds. A job that was to go and has changed stays; the next replacement
-- or prune decides about it again. Returns the number of changes, and whether there are more.
-- The first note of a job tells what it was when it was copied: its final row, if it had ended; nothing, if it is new.
create or replace function windlass.retire_catch_up(of_range windlass.retiring, most integer, out changed integer, out has_more boolean)
language plpgsql
as $$
#variable_conflict use_column
declare
  known xid8 := pg_snapshot_xmin(pg_current_snapshot());
  holds uuid[];
begin
  execute format($q$
    with noted as (
      delete from windlass.retiring_change c
       where (c.tenant_id, c.seq) in (select o.tenant_id, o.seq from windlass.retiring_change o order by o.seq limit %1$s)
      returning c.tenant_id, c.job_id, c.seq, c.lane, c.status, c.is_new),
    jobs as (
      select n.tenant_id, n.job_id, (array_agg(n.is_new order by n.seq))[1] as is_new,
             (array_agg(n.lane order by n.seq) filter (where n.status is not null))[1] as lane,
             (array_agg(n.status order by n.seq) filter (where n.status is not null))[1] as status,
             exists (select from windlass.%2$I b where b.tenant_id = n.tenant_id and b.id = n.job_id) as stays
        from noted n group by n.tenant_id, n.job_id),
    fewer as (
      update windlass.retiring_gone g set jobs = g.jobs - c.jobs
        from (select j.tenant_id, j.lane, j.status, count(*) as jobs from jobs j
               where not j.stays and not j.is_new and j.status is not null group by 1, 2, 3) c
       where g.tenant_id = c.tenant_id and g.lane = c.lane and g.status = c.status),
    back as (
      insert into windlass.retiring_back (tenant_id, job_id)
        select j.tenant_id, j.job_id from jobs j where j.stays or j.is_new or j.status is not null)
    select count(*) from noted
    $q$, most, of_range.new[1]) into changed;
  perform windlass.retire_bring_back(of_range);
  execute format($q$
    insert into windlass.retiring_back (tenant_id, job_id)
      select n.tenant_id, n.job_id from windlass.retire_needed(%1$L, %2$L, %3$L) n
       where not exists (select from windlass.%4$I b where b.tenant_id = n.tenant_id and b.id = n.job_id)
      union
      select h.tenant_id, h.job_id from windlass.retire_held(%1$L, %2$L, true) h
       where not exists (select from windlass.%4$I b where b.tenant_id = h.tenant_id and b.id = h.job_id)
    $q$, of_range.low, of_range.high, coalesce(of_range.known_xid, '0'), of_range.new[1]);
  if found then
    with back as (
      select h.tenant_id, h.lane, h.job_status as status, count(*) as jobs from windlass.retiring_back k
        join windlass.history h on h.tenant_id = k.tenant_id and h.job_id = k.job_id
       where h.job_id >= of_range.low and h.job_id < of_range.high and h.job_status is not null group by 1, 2, 3)
    update windlass.retiring_gone g set jobs = g.jobs - b.jobs from back b
     where g.tenant_id = b.tenant_id and g.lane = b.lane and g.status = b.status;
    perform windlass.retire_bring_back(of_range);
  end if;
  insert into windlass.retiring_hold (tenant_id, id) select h.tenant_id, h.id from windlass.legal_hold h on conflict do nothing;
  update windlass.retiring r set known_xid = known;
  has_more := exists (select from windlass.retiring_change);
end
$$;

-- Makes the rows of the jobs in `retiring_back` the same in the new tables as in the old ones.
-- Index: the primary keys.
create or replace function windlass.retire_bring_back(of_range windlass.retiring) returns void
language plpgsql
as $$
declare
  parent text;
  place integer := 0;
begin
  if not exists (select from windlass.retiring_back) then
    return;
  end if;
  foreach parent in array windlass.partitioned() loop
    place := place + 1;
    execute format('delete from windlass.%I n using windlass.retiring_back k where n.tenant_id = k.tenant_id and n.%I = k.job_id',
      of_range.new[place], windlass.partition_key(parent));
    execute format('insert into windlass.%1$I select o.* from windlass.%2$I o join windlass.retiring_back k on k.tenant_id = o.tenant_id
        and k.job_id = o.%3$I where o.%3$I >= %4$L and o.%3$I < %5$L', of_range.new[place], parent, windlass.partition_key(parent),
      of_range.low, of_range.high);
  end loop;
  delete from windlass.retiring_back;
end
$$;
