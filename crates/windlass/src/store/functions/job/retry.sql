-- Runs a finished job again, with a fresh budget. Answers queued or blocked, or not_finished, missing, or duplicate with
-- the job that holds its dedupe slot; and the status in which the job had ended. The attempt numbers go on rising. The final
-- status is cleared in history, because the job is no longer final; every attempt stays.
-- If retention was about to delete the job, that is off: it no longer waits for its clean-up, and the clean-up is canceled,
-- because it might remove what this run is going to make.
-- Locks: the job's final history row (a deletion locks it too), then as an enqueue.
-- Nobody but the owner's functions calls it: retry_as.sql has the verbs, which write the audit row in the same transaction.
create or replace function windlass.retry_unaudited(tenant uuid, job uuid, out answer text, out holder uuid, out was text)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  body record;
  ended record;
  slot record;
  holds boolean := false;
  last_of_key uuid;
  behind uuid[];
  clean_up uuid;
begin
  perform windlass.tenant_for(tenant);
  perform windlass.stay_durable();
  perform windlass.lock_quota(tenant);
  select b.lane, b.max_attempts, b.dedupe_key, b.ordering_key into body from windlass.job b
   where b.tenant_id = tenant and b.id = job;
  if not found then
    answer := 'missing';
    return;
  end if;
  select h.attempt, h.job_status, h.lane into ended from windlass.history h
   where h.tenant_id = tenant and h.job_id = job and h.job_status is not null for update;
  if not found then
    -- Deleted while we waited for the row, or it has not ended.
    answer := case when exists (select from windlass.job b where b.tenant_id = tenant and b.id = job) then 'not_finished' else 'missing' end;
    return;
  end if;
  -- A key with an end counts when a job is accepted, and a retry accepts none; a key held forever by this job is its own.
  if body.dedupe_key is not null then
    select k.holder, k.held_until into slot from windlass.take_dedupe_key(tenant, body.dedupe_key, job, 'infinity', true, clock_timestamp()) k;
    holds := slot.holder is null;
    if slot.held_until = 'infinity' and slot.holder <> job then
      holder := slot.holder;
      answer := 'duplicate';
      return;
    end if;
  end if;

  -- It takes its place behind the last of its key. Where the last of the key waits for this job, directly or through others, that
  -- would close a circle: then this job goes before those that wait for it and behind the nearest one that does not.
  -- The key's row is locked before looking, or an enqueue could begin to wait for this job meanwhile.
  -- A key whose row went with its last job begins again with this one.
  if body.ordering_key is not null then
    insert into windlass.ordering (tenant_id, ordering_key, last_job_id) values (tenant, body.ordering_key, job) on conflict do nothing;
    select o.last_job_id into last_of_key from windlass.ordering o
     where o.tenant_id = tenant and o.ordering_key = body.ordering_key for update;
    behind := windlass.waiting_behind(tenant, job);
    insert into windlass.dependency (tenant_id, needs_job_id, job_id, if_unmet)
      select tenant, p.job_id, job, 'run' from windlass.places_before(tenant, job, last_of_key, behind) p
      on conflict do nothing;
    if last_of_key <> all (behind) then
      update windlass.ordering o set last_job_id = job where o.tenant_id = tenant and o.ordering_key = body.ordering_key;
    end if;
  end if;
  -- What it waited for when it was ended may still be there as well.
  perform from windlass.dependency d where d.tenant_id = tenant and d.job_id = job for update;
  answer := case when found then 'blocked' else 'queued' end;

  if ended.attempt = 0 then
    delete from windlass.history h where h.tenant_id = tenant and h.job_id = job and h.attempt = 0;
  else
    update windlass.history h set job_status = null where h.tenant_id = tenant and h.job_id = job and h.attempt = ended.attempt;
  end if;
  if answer = 'blocked' then
    insert into windlass.blocked (tenant_id, job_id, lane, max_attempts, holds_dedupe)
      values (tenant, job, body.lane, body.max_attempts, holds);
  else
    insert into windlass.line (tenant_id, job_id, lane, attempt, max_attempts, holds_dedupe, ids)
      values (tenant, job, body.lane, windlass.last_attempt(tenant, job), body.max_attempts, holds, array[job]);
    perform windlass.ring(body.lane);
  end if;
  delete from windlass.purge_wait w where w.tenant_id = tenant and w.job_id = job returning w.cleanup_job_id into clean_up;
  if found then
    perform windlass.cancel_unaudited(tenant, clean_up);
  end if;
  delete from windlass.prune_passed p where p.tenant_id = tenant and p.job_id = job;
  delete from windlass.expiry e where e.tenant_id = tenant and e.job_id = job and e.expires_at <= clock_timestamp(); -- it shall run
  insert into windlass.tally (tenant_id, lane, queued, blocked, succeeded, failed, dead_letter, canceled)
    values (tenant, body.lane, (answer = 'queued')::integer, (answer = 'blocked')::integer, -(ended.job_status = 1)::integer,
            -(ended.job_status = 2)::integer, -(ended.job_status = 3)::integer, -(ended.job_status = 4)::integer);
  perform windlass.hold_to_quota(tenant, 1);
  was := windlass.state_name(ended.job_status);
  if answer = 'blocked' then
    perform windlass.unblock(tenant, array(select d.needs_job_id from windlass.dependency d
      where d.tenant_id = tenant and d.job_id = retry_unaudited.job), array[job]);
    answer := windlass.state_of(tenant, job);
  end if;
end
$$;
