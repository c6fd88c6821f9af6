-- A worker of ours started a job that goes on elsewhere (an endpoint answered 202): the same attempt, under the same
-- token, is now held by `to_worker` under a lease of its own. False if the attempt is over: its endpoint may have been
-- quicker than our note of it.
-- Locks: the new worker's row, the live row, the lease. A reap of the old worker either takes the job first or finds it gone.
create or replace function windlass.hand_over(
  tenant uuid, job uuid, with_attempt integer, with_token uuid, to_worker integer, seconds integer, seconds_present integer)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  at timestamptz;
  held record;
begin
  perform windlass.tenant_for(tenant);
  perform from windlass.job_workers w where w.id = to_worker for no key update;
  at := clock_timestamp();
  update windlass.live l set worker = to_worker
   where l.tenant_id = tenant and l.job_id = job and l.attempt = with_attempt and l.token = with_token
  returning l.lane, l.claimed_at into held;
  if not found then
    return false;
  end if;
  insert into windlass.remote_lease as r (tenant_id, job_id, attempt, token, worker, lease_seconds, expires_at, times_out_at)
    select tenant, job, with_attempt, with_token, to_worker, seconds,
           least(at + seconds * interval '1 s', t.times_out_at), t.times_out_at
      from windlass.job b
      join windlass.lane n on n.tenant_id = b.tenant_id and n.id = held.lane
      join windlass.job_definitions d on d.id = n.definition_id
      cross join lateral (select least(held.claimed_at + d.timeout_seconds * interval '1 s', b.deadline) as times_out_at) t
     where b.tenant_id = tenant and b.id = job
    on conflict (tenant_id, job_id) do update
      set attempt = excluded.attempt, token = excluded.token, worker = excluded.worker, lease_seconds = excluded.lease_seconds,
          expires_at = excluded.expires_at, times_out_at = excluded.times_out_at;
  update windlass.cancel_request c set worker = to_worker where c.tenant_id = tenant and c.job_id = job;
  update windlass.job_workers w
     set last_seen_at = at, stopped_at = null, ended = null, lease_expires_at = greatest(w.lease_expires_at, at + (seconds + seconds_present) * interval '1 s')
   where w.id = to_worker;
  return true;
end
$$;
