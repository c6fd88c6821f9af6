-- Whether one job waits for the other to keep the order of their key.
create or replace function windlass.share_ordering_key(tenant uuid, one uuid, other uuid) returns boolean
language sql stable
as $$
  select exists (select from windlass.job a join windlass.job b on b.tenant_id = a.tenant_id and b.ordering_key = a.ordering_key
                  where a.tenant_id = tenant and a.id = one and b.id = other)
$$;

-- Whether the next job of its ordering key must wait for this one: it has not ended, or it ended before what it waited for.
create or replace function windlass.holds_ordering_key(tenant uuid, job uuid) returns boolean
language sql stable
as $$
  select coalesce(windlass.state_code(windlass.state_of(tenant, job)) > 4, false)
      or exists (select from windlass.dependency d where d.tenant_id = tenant and d.job_id = job)
$$;
