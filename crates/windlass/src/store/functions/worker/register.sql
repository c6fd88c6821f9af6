-- Refuses (WL007) what a worker says about itself if lists of workers could not show it.
create or replace function windlass.refuse_worker(
  worker_id text, hostname text, version text, queues text[], definition_keys text[], metadata jsonb) returns void
language plpgsql immutable
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  field constant text := case
    when worker_id is null or worker_id = '' or octet_length(worker_id) > 500 or worker_id ~ '[[:cntrl:]]' then 'worker_id'
    when hostname is null or octet_length(hostname) > 500 then 'hostname'
    when version is null or octet_length(version) > 500 then 'version'
    when metadata is null or pg_column_size(metadata) > 65536 then 'metadata' end;
begin
  if not windlass.is_list(queues) or not windlass.is_list(definition_keys) then
    perform windlass.refuse_array(case when windlass.is_list(queues) then 'definition_keys' else 'queues' end);
  elsif field is not null then
    raise exception '% must have 1 to 500 bytes without control characters, and metadata at most 64 KiB', field
      using errcode = 'WL007', column = field;
  elsif not (windlass.is_list_of_names(queues) and windlass.is_list_of_names(definition_keys)) then
    raise exception 'queues and definition_keys must be lists of names of at most 500 bytes'
      using errcode = 'WL007', column = case when windlass.is_list_of_names(queues) then 'definition_keys' else 'queues' end;
  end if;
end
$$;

-- Registers a worker process and returns the integer that identifies it in claims. A lease is at most a
-- day: the jobs of a worker that is gone are recovered after it.
create or replace function windlass.register_worker(
  worker_id text, hostname text, version text, queues text[], definition_keys text[], lease_seconds integer, metadata jsonb)
returns integer
language sql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select windlass.refuse_span('lease_seconds', 1, 86400) where $6 not between 1 and 86400;
  select windlass.refuse_worker($1, $2, $3, $4, $5, $7);
  select windlass.refuse_span('lease_seconds', 1, 86400) where $6 is null;
  insert into windlass.job_workers (worker_id, hostname, version, queues, definition_keys, lease_seconds, lease_expires_at, metadata)
    values ($1, $2, $3, $4, $5, $6, clock_timestamp() + $6 * interval '1 s', $7)
  returning id
$$;
