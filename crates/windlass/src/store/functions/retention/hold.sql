-- Protects a job, the jobs of a subject, or (with neither) all jobs of the tenant from deletion, by retention or by an
-- operator. A tenant has at most 1000 holds, because each is compared with every job that is about to be deleted.
-- Counted under the lock, so the limit is exact.
-- Lock order: the gate `hold`, the gate `retire holds`, then as in a cancel. Waits for deletions in progress, and blocks
-- new ones until commit: all jobs that exist then are kept, with their artifacts.
create or replace function windlass.place_hold(tenant uuid, on_job uuid, on_type text, on_id text, why text, by_actor text) returns uuid
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  new_id uuid;
begin
  perform windlass.check_read_committed();
  perform windlass.tenant_for(tenant);
  perform windlass.check_not_null(jsonb_build_object('tenant', tenant));
  perform windlass.check_texts(jsonb_build_object('reason', why), 0, 4096);
  if num_nonnulls(on_type, on_id) > 0 then
    perform windlass.check_texts(jsonb_build_object('subject_type', on_type, 'subject_id', on_id), 0, 500);
    if on_job is not null then
      raise exception 'a hold is on a job or on a subject, not on both' using errcode = 'WL007', column = 'subject_type';
    end if;
  end if;
  perform windlass.lock_gate(tenant, 'hold');
  perform windlass.share_gate('00000000-0000-0000-0000-000000000000', 'retire holds');
  perform windlass.check_tenant_exists(tenant);
  if (select count(*) from windlass.legal_hold h where h.tenant_id = tenant) >= 1000 then
    raise exception 'the tenant has 1000 legal holds; release some first' using errcode = 'WL005', column = 'reason';
  end if;
  insert into windlass.legal_hold (tenant_id, job_id, subject_type, subject_id, reason, created_by)
    values (tenant, on_job, on_type, on_id, why, windlass.actor_for(windlass.cut_text(by_actor))) returning id into new_id;
  perform windlass.record_act(tenant, 'hold.place', new_id::text, null,
    (select to_jsonb(h) from windlass.legal_hold h where h.tenant_id = tenant and h.id = new_id));
  perform windlass.cancel_clean_ups(tenant);
  return new_id;
end
$$;

-- Cancels the clean-up jobs of jobs under hold that have not ended: those would remove the artifacts. A running one is
-- requested to stop, and is not retried. The held jobs no longer wait for them; when the hold is released, retention
-- reads history again and enqueues new ones. A clean-up that has ended stays as it is.
-- Lock order, as in a retry of the job: the clean-up jobs (see lock_jobs), then purge_wait by job.
create or replace function windlass.cancel_clean_ups(tenant uuid) returns void
language plpgsql
as $$
#variable_conflict use_column
declare
  waiting uuid[] := array(select w.job_id from windlass.purge_wait w where w.tenant_id = tenant);
  held uuid[];
  clean_ups uuid[];
  ended uuid[];
begin
  if waiting = '{}' then
    return;
  end if;
  waiting := windlass.held_jobs(tenant, waiting);
  perform windlass.lock_jobs(tenant, array(
    select w.cleanup_job_id from windlass.purge_wait w where w.tenant_id = tenant and w.job_id = any (waiting)),
    100 * greatest(1, cardinality(waiting)));
  held := array(
    select w.job_id from windlass.purge_wait w
     where w.tenant_id = tenant and w.job_id = any (waiting)
       and windlass.has_ended(windlass.state_code(windlass.state_of(tenant, w.cleanup_job_id))) is not true
     order by w.job_id for update);
  with gone as (
    delete from windlass.purge_wait w where w.tenant_id = tenant and w.job_id = any (held) returning w.cleanup_job_id)
  select coalesce(array_agg(g.cleanup_job_id order by g.cleanup_job_id), '{}') into clean_ups from gone g;
  ended := windlass.finish_waiting(tenant, clean_ups, windlass.state_code('canceled'), 'canceled');
  perform windlass.unblock(tenant, ended);
  perform windlass.cancel_unaudited(tenant, c) from unnest(clean_ups) c where c <> all (ended);
end
$$;

-- Ends a hold. Retention has skipped the held jobs, so it starts again and rereads history.
create or replace function windlass.release_hold(tenant uuid, hold uuid) returns boolean
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  was jsonb;
begin
  perform windlass.tenant_for(tenant);
  delete from windlass.legal_hold h where h.tenant_id = tenant and h.id = hold returning to_jsonb(h) into was;
  if not found then
    return false;
  end if;
  perform windlass.record_act(tenant, 'hold.release', hold::text, was);
  perform windlass.read_history_again(tenant, null, null);
  return true;
end
$$;

-- Those of the jobs that are under a hold. Most tenants have none, and then this is one lookup.
create or replace function windlass.held_jobs(tenant uuid, jobs uuid[]) returns uuid[]
language plpgsql stable
set jit = off
as $$
#variable_conflict use_column
begin
  if not exists (select from windlass.legal_hold h where h.tenant_id = tenant) then
    return '{}';
  elsif exists (select from windlass.legal_hold h where h.tenant_id = tenant and h.job_id is null and h.subject_id is null) then
    return jobs;
  end if;
  return array(
    select h.job_id from windlass.legal_hold h where h.tenant_id = tenant and h.job_id = any (jobs)
    union
    select b.id from windlass.job b join windlass.legal_hold h
        on h.tenant_id = b.tenant_id and h.subject_type = b.subject_type and h.subject_id = b.subject_id
     where b.tenant_id = tenant and b.id = any (jobs));
end
$$;
