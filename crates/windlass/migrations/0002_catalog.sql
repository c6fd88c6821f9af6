-- Tables that change rarely: tenants, definitions, triggers, queues, lanes, workers.
set local role windlass_owner;

create table windlass.tenants (
  id uuid primary key default gen_random_uuid(),
  slug text not null,
  name text not null,
  status text not null default 'active',
  weight integer not null default 1,
  timezone text not null default 'UTC',
  -- While it is being deleted: every transaction with an id from here on has seen that, and cannot have enqueued
  -- anything.
  purge_barrier xid8,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint tenants_slug_unique unique (slug),
  constraint tenants_slug_form check (slug ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
  constraint tenants_status_known check (status in ('active', 'suspended', 'deleting')),
  constraint tenants_weight_range check (weight between 1 and 1000)
);

-- An application with one tenant never has to specify it.
insert into windlass.tenants (id, slug, name) values ('00000000-0000-7000-8000-000000000001', 'default', 'Default');

create table windlass.job_definitions (
  id uuid primary key default gen_random_uuid(),
  key text not null,
  description text not null default '',
  arg_schema jsonb not null default '{}',
  timeout_seconds integer not null default 3600,
  max_attempts integer not null default 3,
  is_active boolean not null default true,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  queue text not null default 'default',
  priority smallint not null default 100,
  min_priority smallint not null default 0,
  max_priority smallint not null default 1000,
  max_lost smallint not null default 3,
  max_snoozes smallint not null default 1000,
  start_deadline_seconds integer,
  on_timeout text not null default 'retry',
  on_lost text not null default 'retry',
  backoff jsonb not null default '{}',
  uniqueness jsonb not null default '"active"',
  retention jsonb not null default '{}',
  constraint job_definitions_key_unique unique (key),
  constraint job_definitions_key_form check (key ~ '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}$'),
  constraint job_definitions_queue_form check (queue ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$'),
  constraint job_definitions_timeout_range check (timeout_seconds between 1 and 604800),
  constraint job_definitions_max_attempts_range check (max_attempts between 1 and 1000),
  constraint job_definitions_priority_range check (0 <= min_priority and min_priority <= priority and priority <= max_priority
    and max_priority <= 1000),
  constraint job_definitions_budget_range check (max_lost between 1 and 1000 and max_snoozes between 0 and 32000),
  constraint job_definitions_start_deadline_range check (start_deadline_seconds > 0),
  constraint job_definitions_on_timeout_known check (on_timeout in ('retry', 'fail')),
  constraint job_definitions_on_lost_known check (on_lost in ('retry', 'fail'))
);
create index job_definitions_active on windlass.job_definitions (is_active);

create table windlass.job_triggers (
  id uuid not null default gen_random_uuid(),
  tenant_id uuid not null references windlass.tenants (id),
  label text not null,
  is_enabled boolean not null default true,
  trigger_type text not null,
  event_name text,
  cron_expr text,
  timezone text,
  definition_id uuid not null references windlass.job_definitions (id) on delete restrict,
  payload_template jsonb not null default '{}',
  dedupe_window_seconds integer not null default 300,
  created_by uuid,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (tenant_id, id),
  constraint job_triggers_type_known check (trigger_type in ('event', 'schedule')),
  constraint job_triggers_shape check (
    (trigger_type = 'event' and event_name is not null and cron_expr is null)
    or (trigger_type = 'schedule' and cron_expr is not null and timezone is not null and event_name is null))
);
create index job_triggers_tenant_enabled on windlass.job_triggers (tenant_id, is_enabled);
create index job_triggers_event on windlass.job_triggers (event_name) where trigger_type = 'event';
create index job_triggers_definition on windlass.job_triggers (definition_id);

create table windlass.queues (
  name text primary key,
  is_paused boolean not null default false,
  updated_at timestamptz not null default now(),
  constraint queues_name_form check (name ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$')
);

-- A lane is a combination of queue, definition, tenant and priority, interned as a small integer so that the hot rows
-- stay narrow. A worker reads only the lanes of definitions that it has a handler for. Only retire_lanes and the reuse
-- of a retired lane update a row.
create table windlass.lane (
  id integer generated always as identity,
  tenant_id uuid not null,
  definition_id uuid not null,
  queue text not null,
  priority smallint not null,
  primary key (tenant_id, definition_id, queue, priority)
);
create index lane_by_id on windlass.lane (id);

-- One row per worker process; its lease covers every job it runs, so a heartbeat is one small update. No index covers
-- the columns that a heartbeat changes, and half of each page is free: every heartbeat is a HOT update.
create table windlass.job_workers (
  id integer generated always as identity primary key,
  worker_id text not null,
  hostname text not null,
  version text not null default '',
  queues text[] not null default '{}',
  definition_keys text[] not null default '{}',
  started_at timestamptz not null default now(),
  last_seen_at timestamptz not null default now(),
  lease_expires_at timestamptz not null,
  lease_seconds integer not null,
  running_count integer not null default 0,
  is_draining boolean not null default false,
  stopped_at timestamptz,
  metadata jsonb not null default '{}',
  constraint job_workers_worker_id_unique unique (worker_id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- Workers without work insert a row here and wait; enqueues send notifications only while there is a row.
create table windlass.waiting (
  worker integer primary key
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50);

-- Operator actions. Append-only.
create table windlass.audit (
  id bigint generated always as identity,
  at timestamptz not null default now(),
  tenant_id uuid not null,
  actor text not null,
  action text not null,
  target text not null,
  detail jsonb not null default '{}',
  primary key (tenant_id, id)
);

-- The progress of a keeper duty, so that it resumes after a crash.
create table windlass.keeper_mark (
  duty text primary key,
  reached timestamptz not null,
  updated_at timestamptz not null default now()
);
