-- An operator runs a finished job once more, with a fresh budget. Answers queued or blocked, or not_finished, missing,
-- or duplicate with the job that holds its dedupe slot. The attempt numbers go on rising. The final status is cleared
-- in history, because the job is no longer final; every attempt stays.
create or replace function windlass.retry(tenant uuid, job uuid, actor text, out answer text, out holder uuid)
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
begin
  perform windlass.tenant_for(tenant);
  perform windlass.stay_durable();
  select b.lane, b.max_attempts, b.dedupe_key, b.ordering_key into body from windlass.job b
   where b.tenant_id = tenant and b.id = job;
  if not found then
    answer := 'missing';
    return;
  end if;
  select h.attempt, h.job_status, h.lane into ended from windlass.history h
   where h.tenant_id = tenant and h.job_id = job and h.job_status is not null for update;
  if not found then
    answer := 'not_finished';
    return;
  end if;
  -- A key with an end counts when a job is accepted, and a retry accepts none; a key held for ever by this job is its own.
  while body.dedupe_key is not null loop
    insert into windlass.dedupe as slot (tenant_id, dedupe_key, job_id, until, released_at_end)
      values (tenant, body.dedupe_key, job, 'infinity', true)
      on conflict (tenant_id, dedupe_key) do update
        set job_id = excluded.job_id, until = excluded.until, released_at_end = excluded.released_at_end
        where slot.until <= clock_timestamp();
    holds := found;
    exit when holds;
    select d.job_id, d.until into slot from windlass.dedupe d where d.tenant_id = tenant and d.dedupe_key = body.dedupe_key;
    if found and slot.until = 'infinity' and slot.job_id <> job then
      holder := slot.job_id;
      answer := 'duplicate';
      return;
    end if;
    exit when found;
  end loop;

  -- It takes its place behind the last of its key, unless jobs of the key wait for it: then it is the first of them.
  -- The key's row is locked before looking: an enqueue that is about to wait for this job would close a circle.
  -- A key whose row went with its last job begins anew with this one.
  if body.ordering_key is not null then
    insert into windlass.ordering (tenant_id, ordering_key, last_job_id) values (tenant, body.ordering_key, job) on conflict do nothing;
  end if;
  select o.last_job_id into last_of_key from windlass.ordering o
   where o.tenant_id = tenant and o.ordering_key = body.ordering_key for update;
  if found and not exists (
      select from windlass.dependency d join windlass.blocked b on b.tenant_id = tenant and b.job_id = d.job_id
       where d.tenant_id = tenant and d.needs_job_id = job and windlass.share_ordering_key(tenant, job, d.job_id)) then
    if last_of_key <> job and windlass.holds_ordering_key(tenant, last_of_key) then
      insert into windlass.dependency (tenant_id, needs_job_id, job_id, if_unmet) values (tenant, last_of_key, job, 'run')
        on conflict do nothing;
    end if;
    update windlass.ordering o set last_job_id = job where o.tenant_id = tenant and o.ordering_key = body.ordering_key;
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
  insert into windlass.tally (tenant_id, lane, queued, blocked, succeeded, failed, dead_letter, canceled)
    values (tenant, body.lane, (answer = 'queued')::integer, (answer = 'blocked')::integer, -(ended.job_status = 1)::integer,
            -(ended.job_status = 2)::integer, -(ended.job_status = 3)::integer, -(ended.job_status = 4)::integer);
  perform windlass.hold_to_quota(tenant);
  if coalesce(current_setting('windlass.audited', true), '') <> 'on' then -- otherwise the caller writes its own row
    insert into windlass.audit (tenant_id, actor, action, target, detail)
      values (tenant, actor, 'job.retry', job::text, jsonb_build_object('from', windlass.state_name(ended.job_status), 'to', answer));
  end if;
  if answer = 'blocked' then
    perform windlass.unblock(tenant, array(select d.needs_job_id from windlass.dependency d where d.tenant_id = tenant and d.job_id = retry.job));
    answer := windlass.state_of(tenant, job);
  end if;
end
$$;
