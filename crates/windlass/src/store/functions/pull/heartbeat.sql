-- Renews the lease of one job with a current fence, stores the job's progress, and returns the end of the lease and
-- whether the job should stop. No row: the fence is stale, and nothing was changed. No renewal exceeds the attempt's
-- timeout. A job that a worker still holds (an HTTP call in progress) has no lease to renew: its endpoint only reports.
-- `log` is text for the attempt's log, in chunks of at most 16 KiB: the last 64 chunks are kept.
--
-- Lock order: the worker's row, then the lease. The first because a reap of the whole worker locks it: the second
-- statement then sees the result of that reap.
create or replace function windlass.pull_heartbeat(
  tenant uuid, job uuid, with_attempt integer, with_token uuid, seconds integer, percent real, message text, log text[],
  seconds_present integer)
returns table (lease_expires_at timestamptz, cancel_requested boolean, lease_seconds integer)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  at timestamptz;
  block windlass.live;
  holder integer;
begin
  if seconds not between 1 and 86400 then
    perform windlass.raise_span('seconds', 1, 86400);
  elsif seconds_present not between 0 and 86400 then
    perform windlass.raise_span('seconds_present', 0, 86400);
  end if;
  if not windlass.is_list(log) then
    perform windlass.raise_array();
  end if;
  perform windlass.check_read_committed(); -- an old snapshot would still contain an attempt that has ended
  perform windlass.tenant_for(tenant);
  if not windlass.is_full(log, cardinality(log)) then
    perform windlass.raise_list('log');
  end if;
  block := windlass.block_of(tenant, job);
  if block.attempt is distinct from with_attempt or block.token is distinct from with_token then
    return;
  end if;
  -- The worker of the lease and not of the block: the job may have been handed over since the block was read.
  select r.worker into holder from windlass.pull_lease r
   where r.tenant_id = tenant and r.job_id = job and r.attempt = with_attempt and r.token = with_token;
  if found then
    perform from windlass.job_workers w where w.id = holder for no key update;
    at := clock_timestamp();
    update windlass.pull_lease r
       set lease_seconds = coalesce(seconds, r.lease_seconds),
           expires_at = least(at + coalesce(seconds, r.lease_seconds) * interval '1 s', r.times_out_at)
      from windlass.live l
     where r.tenant_id = tenant and r.job_id = job and r.attempt = with_attempt and r.token = with_token and r.worker = holder
       and l.tenant_id = tenant and l.job_id = job and l.attempt = with_attempt and l.token = with_token
    returning r.expires_at, l.cancel_requested_at[1] is not null, r.lease_seconds
      into lease_expires_at, cancel_requested, lease_seconds;
    if not found then
      return;
    end if;
    update windlass.job_workers w
       set last_seen_at = at, stopped_at = null, ended = null,
           lease_expires_at = greatest(w.lease_expires_at, pull_heartbeat.lease_expires_at + seconds_present * interval '1 s')
     where w.id = holder;
  else
    cancel_requested := block.cancel_requested_at[array_position(block.ids, job)] is not null;
    select w.lease_expires_at, w.lease_seconds into lease_expires_at, lease_seconds from windlass.job_workers w where w.id = block.worker;
    if not found then
      return;
    end if;
  end if;
  if percent is not null or message is not null then
    perform windlass.report_progress(array[tenant], array[job], array[with_attempt], array[with_token], array[percent], array[message]);
  end if;
  if log <> '{}' then
    perform windlass.write_log(array_agg(tenant), array_agg(job), array_agg(with_attempt), array_agg(with_token),
        array_agg((n.last + i.n)::integer), array_agg(3::smallint), array_agg(i.text), array_agg((n.last + cardinality(log) - 63)::integer))
       from unnest(log) with ordinality i (text, n)
       cross join (select coalesce(max(o.chunk), 0) as last from windlass.job_log o
                    where o.tenant_id = tenant and o.job_id = job and o.attempt = with_attempt) n;
  end if;
  return next;
end
$$;
