-- A process that pulls its jobs introduces itself, or comes back: the row of its name is made or taken up again.
-- Unlike a worker of ours it holds each job under a lease of its own, so a row that was closed may come back to life:
-- nothing was held under it. `seconds` is how long it counts as present; a lease of a job keeps it present for longer.
-- A tenant has about 1,000 of them present at the same time: names are the workers' own choice, and each is a row. They are counted
-- without a lock, so those that introduce themselves at the same moment may exceed it by their number.
-- Index: job_workers_of_tenant.
create or replace function windlass.register_remote(
  worker_id text, hostname text, version text, queues text[], definition_keys text[], seconds integer, metadata jsonb,
  out id integer, out is_quiet boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  most constant integer := 1000;
begin
  if $1 ~ '@[0-9a-f-]{36}$' and not exists (select from windlass.job_workers w where w.worker_id = $1 and w.stopped_at is null)
      and (select count(*) from (select from windlass.job_workers w
                                  where right(w.worker_id, 36) = right($1, 36) and w.stopped_at is null limit most) p) >= most then
    raise exception 'the tenant has % workers, and may have no more at the same time', most
      using errcode = 'WL007', column = 'worker_id';
  end if;
  insert into windlass.job_workers as w (worker_id, hostname, version, queues, definition_keys, lease_seconds, lease_expires_at, metadata)
    values ($1, $2, $3, $4, $5, $6, clock_timestamp() + $6 * interval '1 s', $7)
  on conflict (worker_id) do update
    set hostname = excluded.hostname, version = excluded.version, queues = excluded.queues, definition_keys = excluded.definition_keys,
        metadata = excluded.metadata, last_seen_at = clock_timestamp(), stopped_at = null, ended = null,
        started_at = case when w.stopped_at is null then w.started_at else clock_timestamp() end,
        lease_expires_at = greatest(w.lease_expires_at, excluded.lease_expires_at)
  returning w.id, w.is_quiet into id, is_quiet;
end
$$;
