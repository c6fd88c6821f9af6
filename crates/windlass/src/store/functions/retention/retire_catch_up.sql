-- Repeats in the new tables what has happened to jobs of the range since it was decided about them: changes that triggers
-- noted, and new dependencies. A job that was to go and has changed stays; the next replacement or prune decides about it
-- again. Handles the jobs of at most `most` notes, and copies as many bytes (see retire_bring_back). Under the locks of the
-- swap nothing else changes, and what is left over makes it give up. Returns whether there is more.
-- The first note of a job tells what it was when it was decided: its final row, if it had ended; nothing, if it is new.
create or replace function windlass.retire_catch_up(of_range windlass.retiring, most integer, most_bytes bigint, is_locked boolean)
returns boolean
language plpgsql
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  seen pg_snapshot := pg_current_snapshot();
  tenants uuid[];
  jobs uuid[];
begin
  perform windlass.retire_apply_notes(of_range, most);
  select array_agg(n.tenant_id), array_agg(n.job_id) into tenants, jobs
    from (select n.tenant_id, n.job_id from windlass.retire_needed(of_range.low, of_range.high, of_range.known) n
           limit case when is_locked then most + 1 end) n;
  if is_locked and cardinality(jobs) > most then
    return true;
  elsif jobs is not null then
    perform windlass.retire_keep(of_range, tenants, jobs);
  end if;
  update windlass.retiring r set known = seen;
  perform windlass.retire_bring_back(of_range, most, most_bytes);
  return exists (select from windlass.retiring_back) or exists (select from windlass.retiring_change);
end
$$;

-- Of all tenants, or of one.
create or replace function windlass.retire_apply_notes(of_range windlass.retiring, most integer, of_tenant uuid default null) returns void
language plpgsql
as $$
begin
  execute format($q$
    with next as materialized (
      select distinct n.tenant_id, n.job_id from (
        select c.tenant_id, c.job_id from windlass.retiring_change c
         where %2$s and (c.tenant_id, c.job_id) <= (%3$L, %4$L) order by c.tenant_id, c.job_id, c.seq limit %5$s) n),
    noted as (
      delete from windlass.retiring_change c using next n where c.tenant_id = n.tenant_id and c.job_id = n.job_id
      returning c.tenant_id, c.job_id, c.seq, c.lane, c.status, c.is_new),
    jobs as materialized (
      select n.tenant_id, n.job_id, (array_agg(n.is_new order by n.seq))[1] as is_new,
             (array_agg(n.lane order by n.seq) filter (where n.status is not null))[1] as lane,
             (array_agg(n.status order by n.seq) filter (where n.status is not null))[1] as status,
             exists (select from windlass.%1$I b where b.tenant_id = n.tenant_id and b.id = n.job_id)
               or exists (select from windlass.retiring_back k where k.tenant_id = n.tenant_id and k.job_id = n.job_id) as stays
        from noted n group by n.tenant_id, n.job_id),
    fewer as (
      update windlass.retiring_gone g set jobs = g.jobs - c.jobs
        from (select j.tenant_id, j.lane, j.status, count(*) as jobs from jobs j
               where not j.stays and not j.is_new and j.status is not null group by 1, 2, 3) c
       where g.tenant_id = c.tenant_id and g.lane = c.lane and g.status = c.status)
    insert into windlass.retiring_back (tenant_id, job_id)
      select j.tenant_id, j.job_id from jobs j where j.stays or j.is_new or j.status is not null
      on conflict do nothing
    $q$, of_range.new[1], case when of_tenant is null then 'true' else format('c.tenant_id = %L', of_tenant) end,
    of_range.done_to[1], of_range.done_to[2], most);
end
$$;

-- The jobs of the range that a blocked job waits for, by a dependency that this snapshot does not contain.
-- Index: dependency_by_xid.
create or replace function windlass.retire_needed(low uuid, high uuid, known pg_snapshot) returns table (tenant_id uuid, job_id uuid)
language sql stable
as $$
  select distinct d.tenant_id, d.needs_job_id from (
    select n.tenant_id, n.needs_job_id, n.job_id from windlass.dependency n where n.xid >= pg_snapshot_xmax(known)
    union all
    select n.tenant_id, n.needs_job_id, n.job_id from windlass.dependency n where n.xid = any (array(select pg_snapshot_xip(known)))) d
   where d.needs_job_id >= low and d.needs_job_id < high
     and exists (select from windlass.blocked b where b.tenant_id = d.tenant_id and b.job_id = d.job_id)
$$;

-- Of these jobs, those that were to go stay. One with a note is left to it: it says what the job was.
create or replace function windlass.retire_keep(of_range windlass.retiring, tenants uuid[], jobs uuid[]) returns void
language plpgsql
set jit = off
as $$
begin
  execute format($q$
    with added as (
      insert into windlass.retiring_back (tenant_id, job_id)
        select distinct g.tenant_id, g.job_id from unnest($1, $2) g (tenant_id, job_id)
         where not exists (select from windlass.%1$I b where b.tenant_id = g.tenant_id and b.id = g.job_id)
           and not exists (select from windlass.retiring_change c
                            where c.tenant_id = g.tenant_id and c.job_id = g.job_id and (c.status is not null or c.is_new))
        on conflict do nothing returning tenant_id, job_id),
    ended as (
      select h.tenant_id, h.lane, h.job_status as status, count(*) as jobs
        from added a join windlass.history h on h.tenant_id = a.tenant_id and h.job_id = a.job_id
       where h.job_id >= %2$L and h.job_id < %3$L and h.job_status is not null group by 1, 2, 3)
    update windlass.retiring_gone g set jobs = g.jobs - e.jobs from ended e
     where g.tenant_id = e.tenant_id and g.lane = e.lane and g.status = e.status
    $q$, of_range.new[1], of_range.low, of_range.high) using tenants, jobs;
end
$$;

-- Decides again about a page of jobs of a tenant whose rules or legal holds have changed: those that were to go and are kept
-- now stay. So a tenant that changes its rules delays a replacement, and does not cancel it. Returns whether there is more.
create or replace function windlass.retire_look_again(of_range windlass.retiring, most integer) returns boolean
language plpgsql
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  changed windlass.retiring_tenant;
  from_key uuid[];
  to_key uuid[];
  tenants uuid[];
  jobs uuid[];
begin
  insert into windlass.retiring_tenant as t (tenant_id, digest, at_id)
    select coalesce(d.tenant_id, o.tenant_id), coalesce(d.digest, ''), '00000000-0000-0000-0000-000000000000'
      from windlass.tenant_digests() d full join windlass.retiring_tenant o on o.tenant_id = d.tenant_id
     where coalesce(d.digest, '') is distinct from coalesce(o.digest, '')
    on conflict (tenant_id) do update set digest = excluded.digest, at_id = excluded.at_id;
  select * into changed from windlass.retiring_tenant t where t.at_id is not null order by t.tenant_id limit 1;
  if not found then
    return false;
  end if;
  from_key := array[changed.tenant_id, changed.at_id];
  to_key := windlass.page_end(of_range.low, of_range.high, from_key, most);
  if to_key[1] <> changed.tenant_id then
    to_key := array[changed.tenant_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'];
  end if;
  execute format($q$
    with goes as materialized (
      select g.job_id from windlass.retire_goes(%1$L, %2$L, array[%3$L, %4$L]::uuid[], array[%3$L, %5$L]::uuid[]) g)
    select array_agg(h.tenant_id), array_agg(h.job_id) from windlass.history h
     where h.tenant_id = %3$L and h.job_id >= %1$L and h.job_id < %2$L and h.job_id > %4$L and h.job_id <= %5$L and h.job_status is not null
       and h.job_id not in (select g.job_id from goes g)
    $q$, of_range.low, of_range.high, changed.tenant_id, changed.at_id, to_key[2]) into tenants, jobs;
  if jobs is not null then
    perform windlass.retire_keep(of_range, tenants, jobs);
  end if;
  update windlass.retiring_tenant t set at_id = nullif(to_key[2], 'ffffffff-ffff-ffff-ffff-ffffffffffff')
   where t.tenant_id = changed.tenant_id;
  return true;
end
$$;
