-- Before links of an ordering chain go (canceled, expired, purged), hands what they wait for on to whoever waits for them
-- by the same key, past any number of links that go together: the next one would else start beside the one still running.
-- Indexes: dependency's primary key and dependency_by_job. Callers have locked the blocked rows.
create or replace function windlass.hand_on_needs(tenant uuid, jobs uuid[]) returns void
language sql
as $$
  with recursive heir (needs_job_id, job_id, if_unmet, ordering_key) as (
    select d.needs_job_id, d.job_id, d.if_unmet, b.ordering_key
      from windlass.dependency d
      join windlass.job b on b.tenant_id = tenant and b.id = d.job_id
     where d.tenant_id = tenant and d.needs_job_id = any (jobs) and d.job_id <> all (jobs) and b.ordering_key is not null
    union
    select d.needs_job_id, h.job_id, h.if_unmet, h.ordering_key
      from heir h
      join windlass.job b on b.tenant_id = tenant and b.id = h.needs_job_id and b.ordering_key = h.ordering_key
      join windlass.dependency d on d.tenant_id = tenant and d.job_id = h.needs_job_id
     where h.needs_job_id = any (jobs))
  insert into windlass.dependency (tenant_id, needs_job_id, job_id, if_unmet)
    select tenant, h.needs_job_id, h.job_id, h.if_unmet
      from heir h join windlass.job b on b.tenant_id = tenant and b.id = h.needs_job_id and b.ordering_key = h.ordering_key
     where h.needs_job_id <> all (jobs)
    on conflict do nothing
$$;
