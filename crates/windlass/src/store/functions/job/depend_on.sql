-- Makes a new job wait for others, and locks them first, so that none is deleted before the dependency is visible.
-- Not in enqueue_guarded, because only these statements need the setting: with statistics of a small table, or of none, a
-- plan that reads all jobs looks as good as the others, and a session keeps it while the table grows.
create or replace function windlass.depend_on(tenant uuid, new_id uuid, needs uuid[], if_unmet text, ordering_key text) returns void
language plpgsql
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
begin
  perform from windlass.job b where b.tenant_id = tenant and b.id = any (needs) order by b.id for key share;
  if exists (select from unnest(needs) n where not exists (select from windlass.job b where b.tenant_id = tenant and b.id = n)) then
    raise exception 'depends_on names a job that does not exist' using errcode = 'WL008', column = 'depends_on';
  end if;
  insert into windlass.dependency (tenant_id, needs_job_id, job_id, if_unmet, is_ordering)
    select tenant, b.id, new_id, coalesce(depend_on.if_unmet, 'cancel'), coalesce(b.ordering_key = depend_on.ordering_key, false)
      from windlass.job b where b.tenant_id = tenant and b.id = any (needs)
    on conflict do nothing;
end
$$;

-- Whether the tenant has a job with this id. With the same setting, for the same reason.
create or replace function windlass.has_job(tenant uuid, job uuid) returns boolean
language plpgsql
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
begin
  return exists (select from windlass.job b where b.tenant_id = tenant and b.id = job);
end
$$;

-- Refuses (WL017) the id of a job that exists.
create or replace function windlass.raise_taken_id(job uuid) returns void
language plpgsql
as $$
begin
  raise exception 'a job with the id % already exists', job using errcode = 'WL017', column = 'job_id', detail = job::text;
end
$$;
