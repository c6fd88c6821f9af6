-- Fails jobs whose deadline, or whose deadline to have begun, has passed while they waited. Running ones are left to
-- their own deadline. Returns how many instants were looked at; the row goes whatever came of it.
create or replace function windlass.expire(most integer) returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  due record;
  looked integer := 0;
begin
  for due in
    with gone as (
      delete from windlass.expiry e using (
          select x.tenant_id, x.job_id, x.only_unstarted from windlass.expiry x
           where x.expires_at <= clock_timestamp() order by x.expires_at limit most for update skip locked) d
       where e.tenant_id = d.tenant_id and e.job_id = d.job_id and e.only_unstarted = d.only_unstarted
      returning e.tenant_id, e.job_id, e.only_unstarted)
    select g.tenant_id, array_agg(g.job_id) as jobs, count(*) as n from gone g
     where not g.only_unstarted or windlass.last_attempt(g.tenant_id, g.job_id) = 0
     group by g.tenant_id
  loop
    looked := looked + due.n;
    -- A job that is being promoted at this moment is missed at both its places, so what still waits is taken again.
    while due.jobs <> '{}' loop
      perform windlass.unblock(due.tenant_id, windlass.finish_waiting(due.tenant_id, due.jobs, 2::smallint, 'expired'));
      due.jobs := array(select j from unnest(due.jobs) j
                         where windlass.state_of(due.tenant_id, j) in ('queued', 'scheduled', 'blocked'));
    end loop;
  end loop;
  return looked;
end
$$;
