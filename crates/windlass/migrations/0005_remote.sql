-- Jobs that run in somebody else's process: one lease per job, since such a process answers for each job by itself.
--
-- The job's live row stays what decides (attempt and token); this row only says until when nobody else may take the job.
-- A row whose attempt is over means nothing: whoever ends the attempt deletes it, and the reaper sweeps what was left.
set local role windlass_owner;

create table windlass.remote_lease (
  tenant_id uuid not null,
  job_id uuid not null,
  attempt integer not null,
  token uuid not null,
  worker integer not null,
  lease_seconds integer not null,
  expires_at timestamptz not null,
  -- When the attempt has used up its definition's time-out or met the job's deadline: no heartbeat gets beyond it.
  times_out_at timestamptz not null,
  primary key (tenant_id, job_id),
  constraint remote_lease_seconds_range check (lease_seconds between 1 and 86400)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
create index remote_lease_by_expiry on windlass.remote_lease (expires_at);

-- How a worker went, once it did: `stopped` when it said goodbye, `lost` when it fell silent. A process that pulls its jobs has
-- no goodbye to say, so it counts as lost only if it left a job behind.
alter table windlass.job_workers add column ended text,
  add constraint job_workers_ended_known check (ended in ('stopped', 'lost'));
