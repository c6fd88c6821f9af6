-- Refuses (WL007) what a worker says about itself if lists of workers could not show it.
create or replace function windlass.check_worker(
  worker_id text, hostname text, version text, queues text[], definition_keys text[], metadata jsonb) returns void
language plpgsql immutable
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if not windlass.is_list(queues) or not windlass.is_list(definition_keys) then
    perform windlass.raise_array(case when windlass.is_list(queues) then 'definition_keys' else 'queues' end);
  end if;
  perform windlass.check_texts(jsonb_build_object('worker_id', worker_id), 1, 500);
  perform windlass.check_texts(jsonb_build_object('hostname', hostname, 'version', version), 0, 500);
  perform windlass.check_not_null(jsonb_build_object('queues', queues, 'definition_keys', definition_keys));
  if worker_id ~ '[[:cntrl:]]' then
    raise exception 'worker_id must have no control characters' using errcode = 'WL007', column = 'worker_id';
  elsif metadata is null or pg_column_size(metadata) > 65536 then
    raise exception 'metadata must be a JSON value of at most 64 KiB' using errcode = 'WL007', column = 'metadata';
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
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  made integer;
begin
  if $6 not between 1 and 86400 then
    perform windlass.raise_span('lease_seconds', 1, 86400);
  end if;
  perform windlass.check_worker($1, $2, $3, $4, $5, $7);
  if $6 is null then
    perform windlass.raise_null('lease_seconds');
  end if;
  insert into windlass.job_workers (id, worker_id, hostname, version, queues, definition_keys, lease_seconds, lease_expires_at, metadata)
      overriding system value
    values (windlass.next_worker(), $1, $2, $3, $4, $5, $6, clock_timestamp() + $6 * interval '1 s', $7) on conflict do nothing
  returning id into made;
  if not found then
    perform windlass.raise_used('worker_id', 'job_workers_worker_id_unique');
  end if;
  return made;
end
$$;
