-- The tables that jobs move through. A job is one immutable body, plus exactly one of: an id in a row of the line
-- (queued), a position in a live block (running), a deferred row (scheduled), a blocked row, or a history row with its
-- final status. Every move is one transaction.
--
-- Codes. State: 1 succeeded, 2 failed, 3 dead_letter, 4 canceled, 5 queued, 6 running, 7 scheduled, 8 blocked.
-- Attempt outcome: 1 succeeded, 2 failed, 3 timeout, 4 canceled, 5 lost, 6 snoozed, 7 released.
-- Source: 1 manual, 2 event, 3 schedule, 4 system. base/names.sql translates them.
set local role windlass_owner;

-- Written once. No column changes after the insert, so a state change never rewrites a row. Partitioned by id: a UUIDv7
-- starts with its time, so a partition contains the jobs that were created on one day (or in less time, see
-- partition_width). `history`, `progress` and `job_log` have the same partitions: all rows of a job are deleted together.
create table windlass.job (
  tenant_id uuid not null,
  id uuid not null,
  created_at timestamptz not null,
  lane integer not null,
  source smallint not null,
  max_attempts smallint not null,
  line_seq bigint,
  payload json not null,
  scheduled_for timestamptz,
  deadline timestamptz,
  created_by uuid,
  parent_id uuid,
  source_ref text,
  dedupe_key text,
  ordering_key text,
  correlation_id text,
  subject_type text,
  subject_id text,
  trace text,
  tags text[],
  primary key (tenant_id, id),
  constraint job_source_known check (source between 1 and 4)
) partition by range (id);
create table windlass.job_default partition of windlass.job default;
create index job_by_subject on windlass.job (tenant_id, subject_type, subject_id, id) where subject_id is not null;
create index job_by_correlation on windlass.job (tenant_id, correlation_id, id) where correlation_id is not null;
create index job_by_parent on windlass.job (tenant_id, parent_id, id) where parent_id is not null;
create index job_by_tag on windlass.job using gin (tags) where tags is not null;

-- Queued jobs, in the order of `seq` within their lane. Jobs that were enqueued together and have the same policies
-- share a row, up to 64 of them, so that a bulk enqueue writes a sixty-fourth of a row per job; the line_seq of a body
-- is the first row of its job. A job that is queued again (promoted, released, retried, unblocked) has its own row,
-- found by job_id. A claim takes the first jobs of a row by slicing the array, hence some free space in each page. The
-- sequence leaves 64 numbers to each row: seq + taken + index is the position of a job, from which a list can continue.
-- The lane comes first in the key, because claims read by lane, and a lane belongs to one tenant. No vacuum cost limit
-- and a fixed threshold, because this table is small and every claim has to skip its dead rows.
create sequence windlass.line_seq increment 64 start 64;
create table windlass.line (
  tenant_id uuid not null,
  seq bigint not null default nextval('windlass.line_seq'),
  lane integer not null,
  attempt integer not null default 0,
  failures smallint not null default 0,
  lost smallint not null default 0,
  snoozes smallint not null default 0,
  max_attempts smallint not null,
  taken smallint not null default 0,
  holds_dedupe boolean not null default false,
  job_id uuid,
  ids uuid[] not null,
  primary key (lane, seq, tenant_id)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 500000);
create unique index line_by_job on windlass.line (tenant_id, job_id) where job_id is not null;

-- Running jobs, in blocks of up to 64 that one claim took from one lane: part of a row of the line, a whole row, or
-- several small ones. ids[position + 1] is the job at a position, from 0 to 63. The array never changes: the end of an
-- attempt sets the bit of its position in `ended`, which is a HOT update, and the end of the last one deletes the row.
-- seq is the position in the line of the first job. The jobs of a block were first queued in rows whose seq is less than
-- 4096 above it; that is how the block of a job is found from its body (see the view `running`). A job that was queued
-- again, or that has a lease of its own, is a block of one job, found by job_id.
-- cancel_requested_at: by position + 1; null if no job of the block was requested to stop.
-- limited_by: the definition of the jobs if it has a limit on running jobs, so that a claim counts them by reading only
-- their rows.
create table windlass.live (
  tenant_id uuid not null,
  lane integer not null,
  seq bigint not null,
  worker integer not null,
  attempt integer not null,
  token uuid not null,
  claimed_at timestamptz not null,
  ended bigint not null default 0,
  failures smallint not null default 0,
  lost smallint not null default 0,
  snoozes smallint not null default 0,
  max_attempts smallint not null,
  holds_dedupe boolean not null default false,
  limited_by uuid,
  job_id uuid,
  cancel_requested_at timestamptz[],
  ids uuid[] not null,
  primary key (tenant_id, lane, seq)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 500000);
create unique index live_by_job on windlass.live (tenant_id, job_id) where job_id is not null;
create index live_by_limit on windlass.live (limited_by) where limited_by is not null;

-- Jobs that wait for an instant: a later start, a backoff, a snooze.
create table windlass.deferred (
  tenant_id uuid not null,
  job_id uuid not null,
  due_at timestamptz not null,
  lane integer not null,
  attempt integer not null default 0,
  failures smallint not null default 0,
  lost smallint not null default 0,
  snoozes smallint not null default 0,
  max_attempts smallint not null,
  holds_dedupe boolean not null default false,
  primary key (tenant_id, job_id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
create index deferred_by_due on windlass.deferred (due_at);

-- Jobs that wait for other jobs: explicit dependencies, or the previous job with the same ordering key.
create table windlass.blocked (
  tenant_id uuid not null,
  job_id uuid not null,
  lane integer not null,
  max_attempts smallint not null,
  holds_dedupe boolean not null default false,
  scheduled_for timestamptz,
  primary key (tenant_id, job_id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

-- if_unmet: what happens to the waiting job if the needed one does not succeed: cancel it, run it anyway, or keep
-- waiting.
create table windlass.dependency (
  tenant_id uuid not null,
  needs_job_id uuid not null,
  job_id uuid not null,
  if_unmet text not null,
  primary key (tenant_id, needs_job_id, job_id),
  constraint dependency_if_unmet_known check (if_unmet in ('cancel', 'run', 'wait'))
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
create index dependency_by_job on windlass.dependency (tenant_id, job_id);

-- The last job of each ordering key; its row lock serializes the jobs of the key.
create table windlass.ordering (
  tenant_id uuid not null,
  ordering_key text not null,
  last_job_id uuid not null,
  primary key (tenant_id, ordering_key)
);

-- The job that holds a dedupe key, and until when. `released_at_end`: released when the job ends (uniqueness 'active').
create table windlass.dedupe (
  tenant_id uuid not null,
  dedupe_key text not null,
  job_id uuid not null,
  until timestamptz not null,
  released_at_end boolean not null,
  primary key (tenant_id, dedupe_key)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
create index dedupe_by_job on windlass.dedupe (tenant_id, job_id);
create index dedupe_by_until on windlass.dedupe (until) where until < 'infinity';

-- One request, one job: the same key with the same body returns the same job; another body is a conflict.
create table windlass.idempotency (
  tenant_id uuid not null,
  idempotency_key text not null,
  job_id uuid not null,
  body_hash bytea not null,
  created_at timestamptz not null,
  primary key (tenant_id, idempotency_key)
);
create index idempotency_by_age on windlass.idempotency (created_at);

-- Instants at which a job that has not ended (or not started) fails.
create table windlass.expiry (
  tenant_id uuid not null,
  job_id uuid not null,
  expires_at timestamptz not null,
  only_unstarted boolean not null,
  primary key (tenant_id, job_id, only_unstarted)
);
create index expiry_by_time on windlass.expiry (expires_at);

-- The last reported progress of a running job. One row per job that reports; deleted with the job.
create table windlass.progress (
  tenant_id uuid not null,
  job_id uuid not null,
  percent real,
  message text,
  updated_at timestamptz not null,
  primary key (tenant_id, job_id)
) partition by range (job_id);
create table windlass.progress_default partition of windlass.progress default with (fillfactor = 70);

-- Cancel requests that the worker of the job has not received yet.
create table windlass.cancel_request (
  tenant_id uuid not null,
  job_id uuid not null,
  attempt integer not null,
  worker integer not null,
  primary key (tenant_id, job_id)
);
create index cancel_request_by_worker on windlass.cancel_request (worker);

-- One row per ended attempt; the one that ended its job also has the job's final status. A job that ended without an
-- attempt (canceled while queued, expired) has a row with attempt 0. Append-only except for an operator's retry, which
-- clears the final status. Partitioned like the bodies, so the rows of a job are in one partition.
create table windlass.history (
  tenant_id uuid not null,
  job_id uuid not null,
  started_at timestamptz,
  finished_at timestamptz not null,
  attempt integer not null,
  lane integer not null,
  worker integer,
  exit_code integer,
  pid integer,
  outcome smallint,
  job_status smallint,
  reason text,
  error_text text,
  stdout_tail text,
  stderr_tail text,
  result jsonb,
  artifact jsonb,
  primary key (tenant_id, job_id, attempt),
  constraint history_attempt_has_outcome check ((attempt = 0) = (outcome is null)),
  constraint history_status_is_terminal check (job_status between 1 and 4), -- succeeded to canceled
  constraint history_artifact_needs_success check (artifact is null or outcome = 1) -- succeeded
) partition by range (job_id);
create table windlass.history_default partition of windlass.history default;
create index history_by_status on windlass.history (tenant_id, job_status, job_id) where job_status is not null;
create index history_by_time on windlass.history using brin (finished_at) with (pages_per_range = 32);

-- Counters are appended, not updated: each batch that moves jobs appends one row of differences per lane, and the
-- keeper folds them into totals. No hot row; totals plus unfolded rows are exact in every snapshot. purged: deleted
-- jobs. Existing and deleted jobs together are all jobs that were ever enqueued.
create table windlass.tally (
  tenant_id uuid not null,
  lane integer not null,
  queued integer not null default 0,
  running integer not null default 0,
  scheduled integer not null default 0,
  blocked integer not null default 0,
  succeeded integer not null default 0,
  failed integer not null default 0,
  dead_letter integer not null default 0,
  canceled integer not null default 0,
  purged integer not null default 0
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

create table windlass.total (
  tenant_id uuid not null,
  lane integer not null,
  queued bigint not null default 0,
  running bigint not null default 0,
  scheduled bigint not null default 0,
  blocked bigint not null default 0,
  succeeded bigint not null default 0,
  failed bigint not null default 0,
  dead_letter bigint not null default 0,
  canceled bigint not null default 0,
  purged bigint not null default 0,
  primary key (tenant_id, lane)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
