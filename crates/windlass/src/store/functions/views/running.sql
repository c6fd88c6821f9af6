-- Running jobs, one row each, for a search by job: the block of a job is found by its body, or by job_id. Without the
-- token, which readers must not see. A statement that reads all running jobs of a tenant expands the blocks instead (see
-- running_of), because this view reads every body.
-- Index: live_pkey, 65 blocks if claims take whole rows, at most 4159 if they take single jobs; live_by_job.
-- Trap: readers may not execute the functions of base/block.sql, so the bits are tested here.
select windlass.keep_view('running', $view$
select b.tenant_id, b.id as job_id, l.lane, l.seq, (array_position(l.ids, b.id) - 1)::smallint as at_position, l.worker, l.attempt,
       l.claimed_at, l.failures, l.lost, l.snoozes, l.max_attempts, l.holds_dedupe,
       l.cancel_requested_at[array_position(l.ids, b.id)] as cancel_requested_at
  from windlass.job b
  join windlass.live l on l.tenant_id = b.tenant_id and l.lane = b.lane and l.seq > b.line_seq - 4096 and l.seq < b.line_seq + 64
 where l.job_id is null and b.id = any (l.ids) and (l.ended >> (array_position(l.ids, b.id) - 1)) & 1 = 0
union all
select l.tenant_id, l.job_id, l.lane, l.seq, 0::smallint, l.worker, l.attempt, l.claimed_at, l.failures, l.lost, l.snoozes,
       l.max_attempts, l.holds_dedupe, l.cancel_requested_at[1]
  from windlass.live l where l.job_id is not null$view$);

-- The block that holds a running job, all null if it is not running; of the newest committed state, so only the version
-- that the caller locks or updates decides.
-- Trap: EXECUTE, because the cached plan of a lookup in a partitioned table opens every partition. The setting, because a
-- session keeps the plan of its first calls, when live may have been small.
create or replace function windlass.block_of(tenant uuid, job uuid) returns windlass.live
language plpgsql stable
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  block windlass.live;
  body record;
begin
  select l.* into block from windlass.live l where l.tenant_id = tenant and l.job_id = job;
  if found then
    return block;
  end if;
  execute 'select b.lane, b.line_seq from windlass.job b where b.tenant_id = $1 and b.id = $2' into body using tenant, job;
  select l.* into block from windlass.live l
   where l.tenant_id = tenant and l.lane = body.lane and l.seq > body.line_seq - 4096 and l.seq < body.line_seq + 64
     and l.job_id is null and job = any (l.ids) and windlass.runs_at(l.ended, array_position(l.ids, job) - 1);
  return block;
end
$$;

-- Whether this attempt is running under this token.
create or replace function windlass.holds(tenant uuid, job uuid, with_attempt integer, with_token uuid) returns boolean
language plpgsql stable
as $$
declare
  block windlass.live := windlass.block_of(tenant, job);
begin
  return block.attempt operator(pg_catalog.=) with_attempt and block.token operator(pg_catalog.=) with_token;
end
$$;
