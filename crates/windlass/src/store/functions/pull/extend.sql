-- The heartbeat of a SQL worker: renews the lease of a job that it took, stores the progress and lines of the log, and returns the end
-- of the lease and whether the job should stop. A stale token is refused (WL019): nothing was changed. `lease`: null keeps its length.
-- Lock: as in pull_heartbeat.
create or replace function windlass.extend(
  job uuid, token uuid, lease interval default null, percent real default null, message text default null, log text[] default null,
  tenant_id uuid default null, out lease_expires_at timestamptz, out cancel_requested boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '3s'
as $$
#variable_conflict use_column
declare
  own_tenant uuid;
  seconds integer;
  lines text;
  renewed record;
begin
  perform windlass.check_read_committed();
  if not windlass.is_list(extend.log) then
    perform windlass.raise_array('log');
  elsif extend.percent in ('NaN', 'Infinity', '-Infinity') then
    raise exception 'percent must be a number' using errcode = 'WL007', column = 'percent';
  end if;
  seconds := case when extend.lease is not null then windlass.lease_seconds(extend.lease) end;
  lines := windlass.storable(nullif(array_to_string(extend.log, E'\n'), '') || E'\n', 65536);
  own_tenant := windlass.tenant_for(extend.tenant_id);
  select h.* into renewed
    from windlass.pull_lease r
    cross join lateral windlass.pull_heartbeat(own_tenant, extend.job, r.attempt, extend.token, seconds,
      least(greatest(extend.percent, 0), 100), windlass.storable(extend.message, 1000),
      array(select substr(lines, p, 4096) from generate_series(1, char_length(lines), 4096) p), 60) h
   where r.tenant_id = own_tenant and r.job_id = extend.job and r.token = extend.token;
  if not found then
    perform windlass.raise_lease_lost(extend.job);
  end if;
  lease_expires_at := renewed.lease_expires_at;
  cancel_requested := renewed.cancel_requested;
exception when lock_not_available then
  perform windlass.raise_locked(format('the worker of job %s', extend.job));
end
$$;

-- Raises WL019: the attempt of the token has ended, or its lease expired and the job was recovered. An error and not a value, so that
-- the transaction that contains the work is rolled back too.
create or replace function windlass.raise_lease_lost(job uuid) returns void
language plpgsql
as $$
begin
  raise exception 'the lease of job % was lost; nothing was changed', coalesce(job::text, 'null')
    using errcode = 'WL019', detail = coalesce(job::text, ''),
      hint = 'Stop the work: the attempt has ended, or another worker runs the job.';
end
$$;

-- A text from outside as it is stored: no control characters but tab, line feed and carriage return, and at most `most` bytes. As in
-- text.rs, but a long text that is not plain ASCII is cut earlier.
create or replace function windlass.storable(given text, most integer) returns text
language plpgsql immutable
as $$
declare
  clean constant text := regexp_replace(given, E'[\\x01-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f]', chr(65533), 'g');
begin
  if octet_length(clean) <= most then
    return clean;
  end if;
  return left(clean, (most - 50) / case when octet_length(clean) = char_length(clean) then 1 else 4 end)
    || format('…[truncated, %s bytes]', octet_length(given));
end
$$;
