-- Hands a job over to a pull worker, after a worker started it with an HTTP call that returned 202: the same attempt,
-- with the same token, is now held by `to_worker` with its own lease. Returns false if the attempt has ended: the
-- endpoint may have been faster than this call.
-- Lock order: the new worker's row, the lease of an earlier attempt if there is one, the block, as in pull_settle.
-- A reap of the old worker either takes the job first or no longer finds it. Waits 200 ms for a lock: an application's
-- transaction that holds the block may stay open for minutes, and the worker tries again without a connection meanwhile.
create or replace function windlass.hand_over(
  tenant uuid, job uuid, with_attempt integer, with_token uuid, to_worker integer, seconds integer, seconds_present integer)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '200ms'
set jit = off
as $$
#variable_conflict use_column
declare
  at timestamptz;
  held windlass.live;
  at_position integer;
begin
  if seconds not between 1 and 86400 then
    perform windlass.raise_span('seconds', 1, 86400);
  elsif seconds_present not between 0 and 86400 then
    perform windlass.raise_span('seconds_present', 0, 86400);
  end if;
  perform windlass.tenant_for(tenant);
  perform windlass.check_not_null(jsonb_build_object('to_worker', to_worker, 'seconds', seconds));
  perform from windlass.job_workers w where w.id = to_worker for no key update;
  perform from windlass.pull_lease r where r.tenant_id = tenant and r.job_id = job for update;
  at := clock_timestamp();
  held := windlass.block_of(tenant, job);
  select l.* into held from windlass.live l
   where l.tenant_id = tenant and l.lane = held.lane and l.seq = held.seq and l.attempt = with_attempt and l.token = with_token for update;
  at_position := array_position(held.ids, job) - 1;
  if at_position is null or not windlass.runs_at(held.ended, at_position) then
    return false;
  end if;
  -- The job leaves its block, at the end of which its worker no longer holds it, and gets one of its own.
  if held.ended | (1::bigint << at_position) = windlass.all_bits(held.ids) then
    delete from windlass.live l where l.tenant_id = tenant and l.lane = held.lane and l.seq = held.seq;
  else
    update windlass.live l set ended = l.ended | (1::bigint << at_position)
     where l.tenant_id = tenant and l.lane = held.lane and l.seq = held.seq;
  end if;
  insert into windlass.live (tenant_id, lane, seq, worker, attempt, token, claimed_at, failures, lost, snoozes, max_attempts,
      holds_dedupe, limited_by, job_id, cancel_requested_at, ids)
    values (tenant, held.lane, nextval('windlass.line_seq'), to_worker, with_attempt, with_token, held.claimed_at, held.failures, held.lost,
      held.snoozes, held.max_attempts, held.holds_dedupe, held.limited_by, job,
      nullif(array[held.cancel_requested_at[at_position + 1]], array[null::timestamptz]), array[job]);
  insert into windlass.pull_lease as r (tenant_id, job_id, attempt, token, worker, lease_seconds, expires_at, times_out_at)
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
     set last_seen_at = at, stopped_at = null, ended = null,
       lease_expires_at = greatest(w.lease_expires_at, at + (seconds + seconds_present) * interval '1 s')
   where w.id = to_worker;
  return true;
end
$$;
