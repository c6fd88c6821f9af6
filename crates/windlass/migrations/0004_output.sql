-- What processes leave behind: how a command ended, and the log of a run that can be followed.
set local role windlass_owner;

alter table windlass.history add column signal smallint, add column max_rss_kb bigint,
  add column progress_percent real, add column progress_message text;

-- Which attempt said it, so that an attempt that said nothing does not inherit the words of the one before.
alter table windlass.progress add column attempt integer not null;

-- A run's output in the order in which it came, in chunks; the worker numbers them, writes a few times a second for all of
-- its runs together, and drops the oldest beyond a fixed size, so neither the table nor a reader pays for what a job prints.
-- Short runs write nothing here: their whole output is in the attempt's tails. Streams: 1 stdout, 2 stderr, 3 log.
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
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
create index job_log_by_age on windlass.job_log using brin (at) with (pages_per_range = 32);

-- What a definition hides beside what is hidden for all: {expressions, keys}.
alter table windlass.job_definitions add column redaction jsonb not null default '{}';
