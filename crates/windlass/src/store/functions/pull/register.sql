-- Registers a pull worker, or returns it to service: the row of its name is created or reopened. Unlike another worker
-- it holds each job with a separate lease, so a closed row can be reopened: it held no jobs. `seconds` is how long it
-- counts as present; a lease of a job extends that. A tenant may have about 1,000 of them present at the same time,
-- because workers choose their names and each is a row. They are counted without a lock, so concurrent registrations
-- may exceed the limit. A new name deletes the closed rows of its tenant except the last 5,000: otherwise a tenant whose
-- workers always have new names would add a million rows a day until they are old enough to be deleted.
-- Index: job_workers_of_tenant, job_workers_closed_of_tenant.
create or replace function windlass.pull_register(
  worker_id text, hostname text, version text, queues text[], definition_keys text[], seconds integer, metadata jsonb,
  out id integer, out is_draining boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  most constant integer := 1000;
  most_closed constant integer := 5000;
begin
  if seconds not between 1 and 86400 then
    perform windlass.raise_span('seconds', 1, 86400);
  end if;
  perform windlass.check_worker(worker_id, hostname, version, queues, definition_keys, metadata);
  if seconds is null then
    perform windlass.raise_null('seconds');
  end if;
  if $1 ~ '@[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then
    perform windlass.check_tenant_exists(right($1, 36)::uuid); -- the row would stay
  end if;
  if $1 ~ '@[0-9a-f-]{36}$' and not exists (select from windlass.job_workers w where w.worker_id = $1 and w.stopped_at is null)
      and (select count(*) from (select from windlass.job_workers w
                                  where right(w.worker_id, 36) = right($1, 36) and w.stopped_at is null limit most) p) >= most then
    raise exception 'the tenant has reached its limit of % workers', most
      using errcode = 'WL007', column = 'worker_id';
  end if;
  if $1 ~ '@[0-9a-f-]{36}$' and not exists (select from windlass.job_workers w where w.worker_id = $1) then
    delete from windlass.job_workers w where w.id = any (array(
      select o.id from windlass.job_workers o where right(o.worker_id, 36) = right($1, 36) and o.stopped_at is not null
       order by o.stopped_at desc offset most_closed limit 100 for update skip locked));
  end if;
  -- An insert takes a number even if the row exists, and a worker registers with each of its claims.
  loop
    update windlass.job_workers w
       set hostname = $2, version = $3, queues = $4, definition_keys = $5, metadata = $7, last_seen_at = clock_timestamp(),
           started_at = case when w.stopped_at is null then w.started_at else clock_timestamp() end, stopped_at = null, ended = null,
           lease_expires_at = greatest(w.lease_expires_at, clock_timestamp() + $6 * interval '1 s')
     where w.worker_id = $1
    returning w.id into id;
    exit when found;
    insert into windlass.job_workers (id, worker_id, hostname, lease_seconds, lease_expires_at) overriding system value
      values (windlass.next_worker(), $1, $2, $6, clock_timestamp()) on conflict do nothing;
  end loop;
  is_draining := windlass.is_draining(id);
end
$$;
