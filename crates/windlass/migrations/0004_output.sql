-- The output of processes: how a command ended, and the log of a run, which can be followed.
set local role windlass_owner;

alter table windlass.history add column signal smallint, add column max_rss_kb bigint,
  add column progress_percent real, add column progress_message text;

-- The attempt of the report, so that an attempt without progress does not inherit that of the previous one.
alter table windlass.progress add column attempt integer not null;

-- The output of a run in order, in chunks. The worker numbers them, writes a few times a second for all of its runs
-- together, and deletes the oldest above a fixed size, so the size of a job's output is bounded for the table and for
-- readers. Short runs write nothing here: their whole output is in the attempt's tails. Streams: 1 stdout, 2 stderr, 3
-- log.
create table windlass.job_log (
  tenant_id uuid not null,
  job_id uuid not null,
  attempt integer not null,
  chunk integer not null,
  stream smallint not null,
  at timestamptz not null,
  text text not null,
  primary key (tenant_id, job_id, attempt, chunk),
  constraint job_log_stream_known check (stream between 1 and 3)
) partition by range (job_id);
create table windlass.job_log_default partition of windlass.job_log default
  with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

-- What a definition redacts in addition to the global rules: {expressions, keys}.
alter table windlass.job_definitions add column redaction jsonb not null default '{}';
