-- Appends chunks to the logs of running attempts, each only with a current fence, and deletes the chunks of the attempt
-- before keep_from. An existing chunk is unchanged, so a write can be repeated after a lost response. Returns the
-- number of inserted chunks.
-- Index: as in block_of; job_log_pkey. Lock: the bodies of the jobs, as in report_progress; then only its own rows, which
-- one worker writes.
create or replace function windlass.write_log(
  tenants uuid[], jobs uuid[], attempts integer[], tokens uuid[], chunks integer[], streams smallint[], texts text[], keep_from integer[])
returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
  taken integer;
begin
  if not (windlass.is_list(tenants) and windlass.is_list(jobs) and windlass.is_list(attempts)
      and windlass.is_list(tokens) and windlass.is_list(chunks) and windlass.is_list(streams) and windlass.is_list(texts)
      and windlass.is_list(keep_from)) then
    perform windlass.raise_array();
  end if;
  perform windlass.check_read_committed(); -- an old snapshot would still contain an attempt that has ended
  perform windlass.tenants_for(tenants);
  if not (windlass.is_full(streams, cardinality(jobs)) and windlass.is_full(texts, cardinality(jobs))) then
    perform windlass.raise_list(case when windlass.is_full(streams, cardinality(jobs)) then 'texts' else 'streams' end);
  end if;
  with fence as materialized (
    select distinct i.tenant, i.job, i.attempt, i.token from unnest(tenants, jobs, attempts, tokens) i (tenant, job, attempt, token)),
  current as materialized (
    select f.* from fence f
      cross join lateral (select from windlass.job b where b.tenant_id = f.tenant and b.id = f.job for key share skip locked) b
     where windlass.holds(f.tenant, f.job, f.attempt, f.token)),
  held as materialized (
    select i.* from unnest(tenants, jobs, attempts, tokens, chunks, streams, texts, keep_from)
        i (tenant, job, attempt, token, chunk, stream, text, keep_from)
      join current c on c.tenant = i.tenant and c.job = i.job and c.attempt = i.attempt and c.token = i.token),
  dropped as (
    delete from windlass.job_log o
     using (select h.tenant, h.job, h.attempt, max(h.keep_from) as keep_from from held h group by 1, 2, 3) k
     where k.keep_from > 1 and o.tenant_id = k.tenant and o.job_id = k.job and o.attempt = k.attempt and o.chunk < k.keep_from),
  written as (
    insert into windlass.job_log (tenant_id, job_id, attempt, chunk, stream, at, text)
      select h.tenant, h.job, h.attempt, h.chunk, h.stream, clock_timestamp(), h.text
        from held h where h.chunk >= h.keep_from order by 1, 2, 3, 4
      on conflict do nothing
      returning 1)
  select count(*) into taken from written;
  return taken;
end
$$;
