-- An operator asks a worker to finish what it has and claim nothing more, or to continue. The worker receives it with its next
-- heartbeat. Returns whether there is such a worker and it is alive. Workers belong to the installation, so a transaction that acts for a
-- tenant reaches none of them, except the tenant's own pull workers, which are called NAME@TENANT.
create or replace function windlass.set_quiet(worker_id text, is_quiet boolean) returns boolean
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if windlass.current_tenant() is not null and $1 not like '%_@' || windlass.current_tenant() then
    raise exception 'a worker is every tenant''s, and this transaction acts for one' using errcode = 'WL003', detail = windlass.current_tenant()::text;
  end if;
  update windlass.job_workers w set is_quiet = $2 where w.worker_id = $1 and w.stopped_at is null;
  return found;
end
$$;
