-- Looks again at the jobs that wait for any of the given ones. A need is met when its job succeeded, is gone, was
-- canceled (for a 'wait'), or ended in any way (for a 'run'); an unmet 'cancel' cancels the waiting job. Either may in
-- turn decide others, hence the loop: a met need that ended while it waited for others of its ordering key leaves those
-- to whoever waited for it. Locks the blocked rows first: two needs that end at once would otherwise each see the other
-- still open, and the job would wait for ever. Where a need failed, all that its fall may reach is locked at once, by id:
-- level by level, two falls that meet in a diamond would take the same rows in opposite order.
create or replace function windlass.unblock(tenant uuid, needs uuid[]) returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  decided uuid[];
  canceled uuid[];
  deeper uuid[];
  failed uuid[] := array(select n from unnest(needs) n where windlass.state_of(tenant, n) in ('failed', 'dead_letter', 'canceled'));
begin
  if failed <> '{}' then
    perform from windlass.blocked b
      where b.tenant_id = tenant and b.job_id in (
        with recursive falling (job_id) as (
          select unnest(failed)
          union
          select d.job_id from falling f join windlass.dependency d on d.tenant_id = tenant and d.needs_job_id = f.job_id
           where d.if_unmet = 'cancel')
        select d.job_id from windlass.dependency d
         where d.tenant_id = tenant and d.needs_job_id in (select f.job_id from falling f union all select unnest(needs)))
      order by b.job_id for update;
  end if;
  while needs <> '{}' loop
    perform from windlass.blocked b
      where b.tenant_id = tenant
        and b.job_id in (select d.job_id from windlass.dependency d where d.tenant_id = tenant and d.needs_job_id = any (needs))
      order by b.job_id for update;

    with verdict as materialized (
      select d.needs_job_id, d.job_id, d.if_unmet, windlass.state_of(tenant, d.needs_job_id) as state
        from windlass.dependency d where d.tenant_id = tenant and d.needs_job_id = any (needs)),
    known as (
      select v.*, v.state is null or v.state = 'succeeded' or v.if_unmet = 'run' or (v.if_unmet = 'wait' and v.state = 'canceled') as met
        from verdict v where v.state is null or windlass.state_code(v.state) <= 4),
    done as (
      delete from windlass.dependency d using known k
       where (k.met or k.if_unmet = 'cancel') and d.tenant_id = tenant and d.needs_job_id = k.needs_job_id and d.job_id = k.job_id),
    left_behind as (
      select d.needs_job_id, k.job_id, k.if_unmet
        from known k join windlass.dependency d on d.tenant_id = tenant and d.job_id = k.needs_job_id
       where k.met and d.needs_job_id <> k.job_id),
    handed_on as (
      insert into windlass.dependency (tenant_id, needs_job_id, job_id, if_unmet)
        select tenant, l.needs_job_id, l.job_id, l.if_unmet from left_behind l on conflict do nothing)
    select array_agg(distinct k.job_id), array_agg(distinct k.job_id) filter (where not k.met and k.if_unmet = 'cancel'),
           (select array_agg(distinct l.needs_job_id) from left_behind l)
      into decided, canceled, deeper from known k;

    perform windlass.finish_waiting(tenant, canceled, 4::smallint, 'dependency');
    perform windlass.start_unblocked(tenant, decided);
    needs := canceled || deeper;
  end loop;
end
$$;
