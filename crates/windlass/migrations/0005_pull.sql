-- Leases of jobs that run in pull workers: one lease per job, because such a process reports each job separately.
--
-- The job's live row stays authoritative (attempt and token); this row only contains the time until which no other
-- worker may take the job. A row of an ended attempt has no meaning: the end of the attempt deletes it, and the reaper
-- deletes the rest.
set local role windlass_owner;

create table windlass.pull_lease (
  tenant_id uuid not null,
  job_id uuid not null,
  attempt integer not null,
  token uuid not null,
  worker integer not null,
  lease_seconds integer not null,
  expires_at timestamptz not null,
  -- When the attempt reaches its definition's timeout or the job's deadline: no heartbeat extends the lease beyond it.
  times_out_at timestamptz not null,
  primary key (tenant_id, job_id),
  constraint pull_lease_seconds_range check (lease_seconds between 1 and 86400)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
create index pull_lease_by_expiry on windlass.pull_lease (expires_at);

-- How a worker ended: `stopped` if it deregistered, `lost` if it missed its heartbeats. A pull worker does not
-- deregister, so it counts as lost only if it left a job.
alter table windlass.job_workers add column ended text,
  add constraint job_workers_ended_known check (ended in ('stopped', 'lost'));
