-- For the retry of jobs that triggers have fired: the overlap policy must see them again. The fire of a job is closed by
-- the first later fire that finds the job ended (see fire_one).

-- Locks the triggers that fired these jobs: a fire that decides at the same time would find the job ended. The scheduler
-- leaves a locked trigger for its next round. If its jobs may overlap, the lock stops only an edit, which may end that.
-- Lock order: before all others of a retry.
create or replace function windlass.lock_triggers_of(tenant uuid, jobs uuid[]) returns void
language plpgsql
set plan_cache_mode = force_custom_plan
set jit = off
as $$
#variable_conflict use_column
declare
  its uuid[] := array(select windlass.trigger_of(b.source, b.source_ref) from windlass.job b
                       where b.tenant_id = tenant and b.id = any (jobs));
begin
  perform from windlass.job_triggers t where t.tenant_id = tenant and t.id = any (its) order by t.id for key share;
  perform from windlass.job_triggers t
    where t.tenant_id = tenant and t.overlap <> 'allow' and t.id = any (its) order by t.id for share;
end
$$;

-- Opens the fire of a job again, even if the trigger's jobs may overlap: an edit may end that before the job has ended.
-- Index: fire_by_time, as a fire is written directly before its job; planned for its values, because a generic plan
-- reads all fires of the trigger.
create or replace function windlass.reopen_fire(tenant uuid, job uuid, of_trigger uuid, created_at timestamptz) returns void
language plpgsql
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
  update windlass.fire f set is_open = true
   where f.tenant_id = tenant and f.trigger_id = of_trigger and f.job_id = job
     and f.decided_at between reopen_fire.created_at - interval '1 minute' and reopen_fire.created_at + interval '1 minute';
end
$$;

-- The trigger that fired a job, or null. Applications may store any text as source_ref.
create or replace function windlass.trigger_of(source smallint, source_ref text) returns uuid
language sql immutable
as $$
  select case when source in (windlass.source_code('schedule'), windlass.source_code('manual'))
    and source_ref ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then source_ref::uuid end
$$;
