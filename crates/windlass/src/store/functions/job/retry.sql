-- Runs a finished job again, with its attempts reset. Returns queued, blocked, or canceled (a dependency that was still
-- undecided did not succeed); or not_finished, missing, past_deadline (it could not run), or duplicate with the job that
-- holds its dedupe key; and the job's previous final status. Attempt numbers continue to increase. The overlap policy
-- of the trigger that fired the job sees it again (see reopen_fire). The final status is cleared in history, because the
-- job is no longer final; every attempt is kept. A pending deletion by retention is canceled: the job no longer waits for
-- its clean-up job, and that job is canceled, because it might remove the output of this run. Refuses, like an enqueue, if
-- the tenant does not accept jobs (WL003). Only functions of the owner call it: retry_as.sql has the public functions,
-- which write the audit row in the same transaction.
-- Lock order (decision 0020): its trigger, the tenant's row if it has a quota, the gate `circle` if the job has an ordering key, the
-- jobs that wait for it (see lock_behind), its clean-up job, its final history row (a deletion locks it too), then as in
-- an enqueue. retry_many_as locks those of all its jobs before the first one (see lock_to_retry).
create or replace function windlass.retry_unaudited(tenant uuid, job uuid, out result text, out holder uuid, out was text)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set plan_cache_mode = force_custom_plan
set jit = off
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
  perform windlass.lock_triggers_of(tenant, array[job]);
  perform windlass.lock_quota(tenant);
  select b.lane, b.max_attempts, b.dedupe_key, b.ordering_key, b.deadline, b.created_at,
         windlass.trigger_of(b.source, b.source_ref) as trigger_id into body
    from windlass.job b where b.tenant_id = tenant and b.id = job;
  if not found then
    result := 'missing';
    return;
  end if;
  if body.ordering_key is not null then
    -- Retries of one tenant are serialized, and before they read: a concurrent one may be about to add the first job
    -- that waits for this one (see lock_behind). Only of a job that has ended: any other is not retried.
    perform windlass.take_turn(tenant, 'circle');
    if windlass.has_ended(windlass.state_code(windlass.state_of(tenant, job))) then
      perform windlass.lock_behind(tenant, array[job]);
    end if;
  end if;
  perform windlass.lock_jobs(tenant, array(select w.cleanup_job_id from windlass.purge_wait w
    where w.tenant_id = tenant and w.job_id = job), 100);
  select h.attempt, h.job_status, h.lane into ended from windlass.history h
   where h.tenant_id = tenant and h.job_id = job and h.job_status is not null for update;
  if not found then
    -- Deleted while this call waited for the row, or it has not ended.
    result := case when exists (select from windlass.job b where b.tenant_id = tenant and b.id = job) then 'not_finished'
      else 'missing' end;
    return;
  end if;
  if body.deadline <= clock_timestamp() then
    result := 'past_deadline';
    return;
  end if;
  -- This job may hold its own key, for a window or forever. One that another job holds for a window is not taken at the
  -- end of the window either, so a job that was enqueued then would run beside this one.
  if body.dedupe_key is not null then
    select k.holder, k.held_until into slot from windlass.take_dedupe_key(tenant, body.dedupe_key, job, 'infinity', true,
           clock_timestamp()) k;
    holds := slot.holder is null;
    if slot.holder <> job then
      holder := slot.holder;
      result := 'duplicate';
      return;
    end if;
  end if;

  -- The job is queued after the last one of its key. If that one waits for this job, directly or through others, this
  -- would create a cycle: then this job runs before those that wait for it and after the nearest one that does not. The
  -- key's row is locked before the second read, or an enqueue could start to wait for this job meanwhile. If the key's row was
  -- deleted with its last job, the key starts again with this one.
  if body.ordering_key is not null then
    insert into windlass.ordering (tenant_id, ordering_key, last_job_id) values (tenant, body.ordering_key, job) on conflict do nothing;
    select o.last_job_id into last_of_key from windlass.ordering o
     where o.tenant_id = tenant and o.ordering_key = body.ordering_key for update;
    behind := windlass.lock_behind(tenant, array[job]);
    insert into windlass.dependency (tenant_id, needs_job_id, job_id, if_unmet, is_ordering)
      select tenant, p.job_id, job, 'run', true from windlass.places_before(tenant, job, last_of_key, behind) p
      on conflict do nothing;
    if last_of_key <> all (behind) then
      update windlass.ordering o set last_job_id = job where o.tenant_id = tenant and o.ordering_key = body.ordering_key;
    end if;
  end if;
  -- The dependencies from before its end may still exist.
  perform from windlass.dependency d where d.tenant_id = tenant and d.job_id = job for update;
  result := case when found then 'blocked' else 'queued' end;

  if ended.attempt = 0 then
    delete from windlass.history h where h.tenant_id = tenant and h.job_id = job and h.attempt = 0;
  else
    update windlass.history h set job_status = null where h.tenant_id = tenant and h.job_id = job and h.attempt = ended.attempt;
  end if;
  if result = 'blocked' then
    insert into windlass.blocked (tenant_id, job_id, lane, max_attempts, holds_dedupe)
      values (tenant, job, body.lane, body.max_attempts, holds);
  else
    insert into windlass.line (tenant_id, job_id, lane, attempt, max_attempts, holds_dedupe, ids)
      values (tenant, job, body.lane, windlass.last_attempt(tenant, job), body.max_attempts, holds, array[job]);
    perform windlass.notify_lane(body.lane);
  end if;
  delete from windlass.purge_wait w where w.tenant_id = tenant and w.job_id = job returning w.cleanup_job_id into clean_up;
  if found then
    perform windlass.cancel_unaudited(tenant, clean_up);
  end if;
  delete from windlass.prune_passed p where p.tenant_id = tenant and p.job_id = job;
  delete from windlass.expiry e
   where e.tenant_id = tenant and e.job_id = job and e.only_unstarted and e.expires_at <= clock_timestamp(); -- it must run
  was := windlass.state_name(ended.job_status);
  insert into windlass.tally (tenant_id, lane, queued, blocked, succeeded, failed, dead_letter, canceled)
    values (tenant, body.lane, (result = 'queued')::integer, (result = 'blocked')::integer, -(was = 'succeeded')::integer,
            -(was = 'failed')::integer, -(was = 'dead_letter')::integer, -(was = 'canceled')::integer);
  if body.trigger_id is not null then
    perform windlass.reopen_fire(tenant, job, body.trigger_id, body.created_at);
  end if;
  perform windlass.limit_to_quota(tenant, 1);
  perform windlass.check_tenants_active(array[tenant]);
  if result = 'blocked' then
    perform windlass.unblock(tenant, array(select d.needs_job_id from windlass.dependency d
      where d.tenant_id = tenant and d.job_id = retry_unaudited.job), array[job]);
    result := windlass.state_of(tenant, job);
  end if;
end
$$;

-- Locks what the retries of many jobs need, before the first one; see the lock order above. Returns the jobs that have
-- ended, and their keys, which the caller unlocks after the last retry (see unlock_keys).
create or replace function windlass.lock_to_retry(
  tenant uuid, jobs uuid[], out ended uuid[], out dedupe_keys text[], out ordering_keys text[])
language plpgsql
set plan_cache_mode = force_custom_plan
set jit = off
as $$
#variable_conflict use_column
begin
  perform windlass.lock_triggers_of(tenant, jobs);
  perform windlass.lock_quota(tenant);
  if exists (select from windlass.job b where b.tenant_id = tenant and b.id = any (jobs) and b.ordering_key is not null) then
    perform windlass.take_turn(tenant, 'circle');
    perform windlass.lock_behind(tenant, array(
      select h.job_id from windlass.history h join windlass.job b on b.tenant_id = h.tenant_id and b.id = h.job_id
       where h.tenant_id = tenant and h.job_id = any (jobs) and h.job_status is not null and b.ordering_key is not null));
  end if;
  perform windlass.lock_jobs(tenant, array(select w.cleanup_job_id from windlass.purge_wait w
    where w.tenant_id = tenant and w.job_id = any (jobs)), 100 * cardinality(jobs));
  ended := array(select h.job_id from windlass.history h
    where h.tenant_id = tenant and h.job_id = any (jobs) and h.job_status is not null order by h.job_id for update);
  if ended <> '{}' then -- for an empty list, every partition is planned
    select array_agg(b.dedupe_key), array_agg(b.ordering_key) into dedupe_keys, ordering_keys from windlass.job b
     where b.tenant_id = tenant and b.id = any (ended);
  end if;
  perform windlass.lock_keys(tenant, null, dedupe_keys, ordering_keys, null);
end
$$;
