-- Takes jobs for several pull workers at once: as many as one claim of ours, dealt out one to a slot (workers[i],
-- lease_seconds[i], tokens[i]) in the order claimed. Each job gets a token of its own, because the one of a batch would
-- let one worker speak for another's job. by_worker is the dispatcher, which holds nothing once this has committed.
-- `seconds_present` is how long a worker counts as present beyond its lease.
--
-- Locks: the pull workers' rows in order (so that none is closed meanwhile), then as claim, then the lease's row.
-- A row at a time: the claim's own update of the live row must be over before the second one.
create or replace function windlass.claim_remote(
  by_worker integer, with_token uuid, lanes integer[], after_seqs bigint[], counts integer[],
  workers integer[], lease_seconds integer[], tokens uuid[], seconds_present integer, in_epoch integer default 0)
returns table (tenant_id uuid, job_id uuid, lane integer, seq bigint, attempt integer, failures smallint, lost smallint,
  snoozes smallint, max_attempts smallint, payload json, queued_ms bigint, deadline_ms bigint, extra jsonb,
  slot integer, lease_expires_at timestamptz, times_out_at timestamptz)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $$
#variable_conflict use_column
declare
  at timestamptz := clock_timestamp();
  got record;
begin
  perform from windlass.job_workers w where w.id = any (workers) order by w.id for no key update;
  slot := 0;
  for got in select * from windlass.claim(by_worker, with_token, lanes, after_seqs, counts, in_epoch) loop
    slot := slot + 1;
    select least(at + d.timeout_seconds * interval '1 s', at + got.deadline_ms * interval '1 ms') into times_out_at
      from windlass.lane n join windlass.job_definitions d on d.id = n.definition_id where n.id = got.lane;
    lease_expires_at := least(at + lease_seconds[slot] * interval '1 s', times_out_at);
    update windlass.live l set token = tokens[slot], worker = workers[slot]
     where l.tenant_id = got.tenant_id and l.job_id = got.job_id;
    insert into windlass.remote_lease as r (tenant_id, job_id, attempt, token, worker, lease_seconds, expires_at, times_out_at)
      values (got.tenant_id, got.job_id, got.attempt, tokens[slot], workers[slot], lease_seconds[slot], lease_expires_at, times_out_at)
      on conflict (tenant_id, job_id) do update
        set attempt = excluded.attempt, token = excluded.token, worker = excluded.worker, lease_seconds = excluded.lease_seconds,
            expires_at = excluded.expires_at, times_out_at = excluded.times_out_at;
    tenant_id := got.tenant_id; job_id := got.job_id; lane := got.lane; seq := got.seq; attempt := got.attempt;
    failures := got.failures; lost := got.lost; snoozes := got.snoozes; max_attempts := got.max_attempts; payload := got.payload;
    queued_ms := got.queued_ms; deadline_ms := got.deadline_ms; extra := got.extra;
    return next;
  end loop;
  if slot > 0 then
    update windlass.job_workers w
       set last_seen_at = at, stopped_at = null, ended = null,
           lease_expires_at = greatest(w.lease_expires_at, at + (i.seconds + seconds_present) * interval '1 s')
      from (select u.worker, max(u.seconds) as seconds from unnest(workers[1:slot], lease_seconds[1:slot]) u (worker, seconds) group by 1) i
     where w.id = i.worker;
  end if;
end
$$;
