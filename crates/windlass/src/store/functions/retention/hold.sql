-- Keeps a job, the jobs of a subject, or (with neither) all of the tenant from being deleted, by retention and by hand.
-- Waits for deletions that are in progress, and lets none begin until it is committed: what is there then, stays.
-- A tenant has at most a thousand holds: each is compared with every job that is about to be deleted. Counted under the lock, so that the
-- number holds.
create or replace function windlass.place_hold(tenant uuid, on_job uuid, on_type text, on_id text, why text, by_actor text) returns uuid
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  new_id uuid;
begin
  perform windlass.need_read_committed();
  perform windlass.tenant_for(tenant);
  perform windlass.lock_gate(tenant, 'hold');
  if (select count(*) from windlass.legal_hold h where h.tenant_id = tenant) >= 1000 then
    raise exception 'the tenant has 1000 legal holds; release some first' using errcode = 'WL005', column = 'reason';
  end if;
  insert into windlass.legal_hold (tenant_id, job_id, subject_type, subject_id, reason, created_by)
    values (tenant, on_job, on_type, on_id, why, by_actor) returning id into new_id;
  return new_id;
end
$$;

-- Ends a hold. Retention has gone past what was held, so it begins again and reads history again.
create or replace function windlass.release_hold(tenant uuid, hold uuid) returns boolean
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  perform windlass.tenant_for(tenant);
  delete from windlass.legal_hold h where h.tenant_id = tenant and h.id = hold;
  if not found then
    return false;
  end if;
  perform windlass.read_history_again(tenant, null, null);
  return true;
end
$$;

-- Those of the jobs that are under a hold. Most tenants have none, and then this is one look-up.
create or replace function windlass.held_jobs(tenant uuid, jobs uuid[]) returns uuid[]
language plpgsql stable
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
