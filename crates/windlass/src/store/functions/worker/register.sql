-- Registers a worker process and returns the integer that identifies it in claims. A lease is at most a
-- day: the jobs of a worker that is gone are recovered after it.
create or replace function windlass.register_worker(
  worker_id text, hostname text, version text, queues text[], definition_keys text[], lease_seconds integer, metadata jsonb)
returns integer
language sql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select windlass.refuse_span('lease_seconds', 1, 86400) where $6 not between 1 and 86400;
  select windlass.refuse_array() where not (windlass.is_list(queues) and windlass.is_list(definition_keys));
  insert into windlass.job_workers (worker_id, hostname, version, queues, definition_keys, lease_seconds, lease_expires_at, metadata)
    values ($1, $2, $3, $4, $5, $6, clock_timestamp() + $6 * interval '1 s', $7)
  returning id
$$;
