-- Retention replaces whole partitions (decision 0023): the state of a replacement in progress, and what the choice of
-- partitions depends on.
set local role windlass_owner;

-- The range of ids whose partitions are being replaced; at most one.
--   step        `begun` (new tables exist and changes are noted; jobs are decided about and copied), `copied` (the new tables
--               contain what stays), `swapped` (the old tables are detached and can be dropped), `canceled` (the new tables
--               can be dropped)
--   old, new    the names of the tables
--   rules       a digest of the definitions' rules
--   done_to     the tenant and the id of the last job that was decided about; jobs are read in this order
--   waits_for   the transactions that were open when all was copied, until wait_until
--   known       the dependencies that this snapshot sees have been considered
--   home        where `known` is valid (see windlass.home)
--   problem     why the last attempt at a step failed
create table windlass.retiring (
  is_only boolean primary key default true,
  low uuid not null,
  high uuid not null,
  step text not null default 'begun',
  old text[] not null,
  new text[] not null,
  rules text not null,
  began_at timestamptz not null default clock_timestamp(),
  done_to uuid[] not null,
  waits_for text[],
  wait_until timestamptz,
  known pg_snapshot not null default pg_current_snapshot(),
  home text,
  tries integer not null default 0,
  problem text,
  constraint retiring_is_one_row check (is_only),
  constraint retiring_step_known check (step in ('begun', 'copied', 'swapped', 'canceled'))
) with (fillfactor = 20);

-- Jobs of that range that changed, in order; a trigger of the old partitions writes them. lane and status: those of the
-- final row of history that was updated or deleted. is_new: the body was inserted.
create table windlass.retiring_change (
  tenant_id uuid not null,
  job_id uuid not null,
  seq bigint generated always as identity,
  lane integer,
  status smallint,
  is_new boolean not null,
  primary key (tenant_id, job_id, seq)
);

-- How many jobs are deleted by the swap.
create table windlass.retiring_gone (
  tenant_id uuid not null,
  lane integer not null,
  status smallint not null,
  jobs bigint not null,
  primary key (tenant_id, lane, status)
);

-- The tenants with rules or legal holds, and a digest of those that were considered. at_id: all jobs of the tenant after this
-- one are decided about again, because a rule or a hold changed meanwhile.
create table windlass.retiring_tenant (
  tenant_id uuid primary key,
  digest text not null,
  at_id uuid
);

-- Jobs that stay and are to be copied, or copied again.
create table windlass.retiring_back (
  tenant_id uuid not null,
  job_id uuid not null,
  primary key (tenant_id, job_id)
);

-- What retention last found in a large partition: its jobs and those past their period (both estimated), and how often its
-- replacement failed. is_pruned: its jobs are deleted one by one, by their rules and, because rules have passed over them,
-- by one pass through the partition: pruned_to is the tenant and the id that it has reached, null after the last.
create table windlass.partition_look (
  low uuid primary key,
  high uuid not null,
  jobs bigint not null,
  due bigint not null,
  is_pruned boolean not null,
  pruned_to uuid[],
  tries integer not null default 0,
  checked_at timestamptz not null default clock_timestamp()
) with (fillfactor = 50);

-- How many jobs had been enqueued at an instant, and how many per second before it: the width of new partitions depends
-- on it. busy_at: when a lock on the partitioned tables was last not available (see was_busy).
create table windlass.partition_rate (
  is_only boolean primary key default true,
  at timestamptz not null default clock_timestamp(),
  jobs numeric not null default 0,
  per_second double precision not null default 0,
  busy_at timestamptz,
  constraint partition_rate_is_one_row check (is_only)
) with (fillfactor = 20);
insert into windlass.partition_rate default values;

-- Where the search for rows of deleted jobs continues, for each table.
create table windlass.leftover_mark (
  of_table text primary key,
  at_tenant uuid not null default '00000000-0000-0000-0000-000000000000',
  at_key text not null default '',
  passed_at timestamptz
) with (fillfactor = 20);

insert into windlass.gate (of_id, purpose) values ('00000000-0000-0000-0000-000000000000', 'retire'),
  ('00000000-0000-0000-0000-000000000000', 'retire holds');

-- Functions that have other arguments, another name or more columns of their result now.
drop function if exists windlass.maintain_partitions(integer);
drop function if exists windlass.make_partition(text, date);
drop function if exists windlass.rows_of_week(text, uuid, uuid);
drop function if exists windlass.retention_progress();
