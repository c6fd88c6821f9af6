-- Schedules, events, and the retention of finished jobs.
set local role windlass_owner;

-- generation increases with every edit: a decision about an older generation is not applied. next_due_at is the next
-- undecided instant, stored so that none is missed while no keeper runs; null if the trigger has ended, was deleted, or
-- is an event trigger. A disabled trigger still advances from instant to instant: each is recorded.
alter table windlass.job_triggers
  add column generation integer not null default 1,
  add column next_due_at timestamptz,
  add column conditions jsonb not null default '{}',
  add column misfire text not null default 'fire_once',
  add column misfire_max integer not null default 100,
  add column misfire_window_seconds integer not null default 86400,
  add column misfire_grace_seconds integer not null default 60,
  add column overlap text not null default 'allow',
  add column jitter_seconds integer not null default 0,
  add column starts_at timestamptz,
  add column ends_at timestamptz,
  add column deleted_at timestamptz,
  add constraint job_triggers_misfire_known check (misfire in ('skip', 'fire_once', 'fire_all')),
  add constraint job_triggers_misfire_range check (
    misfire_max between 1 and 1000 and misfire_window_seconds > 0 and misfire_grace_seconds > 0),
  add constraint job_triggers_overlap_known check (overlap in ('allow', 'skip', 'queue_one', 'cancel_running')),
  add constraint job_triggers_jitter_range check (jitter_seconds between 0 and 86400),
  add constraint job_triggers_dedupe_range check (dedupe_window_seconds between 0 and 31622400),
  add constraint job_triggers_dates check (ends_at > starts_at),
  add constraint job_triggers_due_when_there check (next_due_at is null or (deleted_at is null and trigger_type = 'schedule'));
create index job_triggers_due on windlass.job_triggers (next_due_at) where next_due_at is not null;

-- Every past instant of a schedule, with its outcome; written in the transaction that creates the job and advances
-- next_due_at. The key alone guarantees exactly once. kind: schedule, manual (run now, due when it was requested) or
-- backfill. jitter_seconds: the delay of the job after its instant. is_open: the overlap policy must still check
-- whether its job has ended.
create table windlass.fire (
  tenant_id uuid not null,
  trigger_id uuid not null,
  due_at timestamptz not null,
  generation integer not null,
  kind text not null default 'schedule',
  outcome text not null,
  reason text,
  job_id uuid,
  jitter_seconds double precision not null default 0,
  is_open boolean not null default false,
  decided_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, trigger_id, due_at, generation),
  constraint fire_kind_known check (kind in ('schedule', 'manual', 'backfill')),
  constraint fire_shape check (
    (outcome = 'fired' and job_id is not null and reason is null) or (outcome = 'skipped' and job_id is null and reason is not null))
);
create index fire_open on windlass.fire (tenant_id, trigger_id) where is_open;
create index fire_by_time on windlass.fire using brin (decided_at) with (pages_per_range = 32);

-- The leader of a duty. Only to spare others the work: a keeper that is not the leader checks a moment later and finds
-- it done. epoch increases with every change of the leader. notifies_until: the duty requests notifications until then.
create table windlass.leader (
  duty text primary key,
  holder uuid not null,
  epoch bigint not null default 1,
  expires_at timestamptz not null,
  notifies_until timestamptz not null default '-infinity'
) with (fillfactor = 20);

-- Events, written in the transaction in which they happened. Kept as history together with their dispatches.
create table windlass.event (
  tenant_id uuid not null,
  id uuid not null,
  name text not null,
  payload jsonb not null,
  emitted_at timestamptz not null,
  dedupe_id text,
  correlation_id text,
  trace text,
  created_by uuid,
  primary key (tenant_id, id)
);
create unique index event_dedupe on windlass.event (tenant_id, dedupe_id) where dedupe_id is not null;
create index event_by_name on windlass.event (tenant_id, name, id);
create index event_by_time on windlass.event using brin (emitted_at) with (pages_per_range = 32);

-- The outbox: events that were not dispatched yet. A row is deleted in the transaction that creates the jobs.
create sequence windlass.event_seq;
create table windlass.event_pending (
  tenant_id uuid not null,
  event_id uuid not null,
  seq bigint not null default nextval('windlass.event_seq'),
  primary key (tenant_id, event_id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
create index event_pending_in_line on windlass.event_pending (seq);

-- The result of an event for a trigger that it matched: one row each, and so at most one job each.
create table windlass.event_dispatch (
  tenant_id uuid not null,
  event_id uuid not null,
  trigger_id uuid not null,
  outcome text not null,
  reason text,
  job_id uuid,
  decided_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, event_id, trigger_id),
  constraint event_dispatch_outcome_known check (outcome in ('fired', 'deduplicated', 'failed')),
  constraint event_dispatch_shape check ((outcome = 'failed') = (job_id is null) and (outcome = 'failed') = (reason is not null))
);
create index event_dispatch_by_trigger on windlass.event_dispatch (tenant_id, trigger_id, event_id);
create index event_dispatch_failed on windlass.event_dispatch (tenant_id, event_id) where outcome = 'failed';

-- A tenant's own retention, which takes precedence over its definitions'. definition_key '*' means every definition;
-- keep_seconds null means forever.
create table windlass.retention (
  tenant_id uuid not null,
  definition_key text not null,
  status text not null,
  keep_seconds bigint,
  updated_at timestamptz not null default now(),
  primary key (tenant_id, definition_key, status),
  constraint retention_status_known check (status in ('succeeded', 'failed', 'dead_letter', 'canceled', 'event')),
  constraint retention_keep_range check (keep_seconds between 0 and 3162240000),
  constraint retention_events_are_of_all check (status <> 'event' or definition_key = '*')
);

-- What must not be deleted: one job, the jobs of a subject, or, with neither, all jobs of the tenant.
create table windlass.legal_hold (
  tenant_id uuid not null,
  id uuid not null default gen_random_uuid(),
  job_id uuid,
  subject_type text,
  subject_id text,
  reason text not null,
  created_by text not null,
  created_at timestamptz not null default now(),
  primary key (tenant_id, id),
  constraint legal_hold_one_target check (job_id is null or subject_id is null),
  constraint legal_hold_whole_subject check ((subject_type is null) = (subject_id is null))
);
create index legal_hold_by_job on windlass.legal_hold (tenant_id, job_id) where job_id is not null;
create index legal_hold_by_subject on windlass.legal_hold (tenant_id, subject_type, subject_id) where subject_id is not null;

-- Jobs past their retention whose artifact is being removed first: they are deleted when that job has succeeded.
create table windlass.purge_wait (
  tenant_id uuid not null,
  job_id uuid not null,
  cleanup_job_id uuid not null,
  since timestamptz not null default now(),
  primary key (tenant_id, job_id)
);

-- The definition whose job removes the artifact of a job that is about to be purged.
alter table windlass.job_definitions add column on_purge text,
  add constraint job_definitions_on_purge_other check (on_purge <> key);

-- moved: the number of jobs that a rule has deleted so far. span: the interval that it reads at once.
alter table windlass.keeper_mark add column moved bigint not null default 0, add column span interval;
