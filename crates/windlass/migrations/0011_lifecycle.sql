-- Prevents a late message, a retry and a deletion from acting on a state that has changed meanwhile.
set local role windlass_owner;

-- Incremented whenever the worker releases a claim whose response was lost. A claim contains the epoch in which it was
-- sent and takes nothing in a later one, so a claim that arrives late cannot take jobs that its worker does not know.
alter table windlass.job_workers add column epoch integer not null default 0;

-- Their arguments or result types have changed.
drop function if exists windlass.claim(integer, uuid, integer[], bigint[], integer[]);
drop function if exists windlass.unclaim(integer, uuid, integer[]);
drop function if exists windlass.set_waiting(integer, boolean);
drop function if exists windlass.unblock(uuid, uuid[]);

-- Finished jobs past their retention that their rule skipped: a blocked job waits for them, another transaction had
-- locked them, or they could not be deleted. The rules return to them when that has ended.
create table windlass.prune_passed (
  tenant_id uuid not null,
  job_id uuid not null,
  primary key (tenant_id, job_id)
);

-- Every transaction that may have ended a job before `ended_before` has ended. Those before `seen_xid` had started at
-- `seen_at`.
create table windlass.prune_mark (
  is_only boolean primary key default true,
  ended_before timestamptz not null default '-infinity',
  seen_at timestamptz not null,
  seen_xid xid8 not null,
  constraint prune_mark_is_one_row check (is_only)
) with (fillfactor = 20);
insert into windlass.prune_mark (seen_at, seen_xid) values (clock_timestamp() - interval '1 minute',
  pg_snapshot_xmax(pg_current_snapshot()));

-- The jobs of a tenant that retention must read again from the oldest on: those of a definition and a status, null for
-- all. begun_at: when it started.
create table windlass.prune_again (
  tenant_id uuid not null,
  definition_key text,
  status text,
  begun_at timestamptz
);

-- When the clean-up was last processed, so that those that cannot be completed do not delay the others.
alter table windlass.purge_wait add column checked_at timestamptz not null default '-infinity';

-- The transaction that wrote the row. A job may end while the row that depends on it is being written, not visible to
-- either side: the keeper checks every row after all transactions that could have missed it have ended (see
-- unblock_all).
alter table windlass.dependency add column xid xid8 not null default pg_current_xact_id();
create index dependency_by_xid on windlass.dependency (xid, tenant_id, needs_job_id, job_id);

-- The progress of the keeper: every row written before `low` is done. `passed` and `barrier` belong to the last
-- complete pass: it saw all rows before `passed`, and no transaction from `barrier` on could have missed them. `began`
-- and `began_barrier` are the same for the current pass, `at` is the last row that it processed. `sweep` is the last
-- blocked job that the slow scan of all blocked jobs has reached.
create table windlass.unblock_mark (
  is_only boolean primary key default true,
  low xid8 not null default '0',
  passed xid8,
  barrier xid8,
  began xid8,
  began_barrier xid8,
  at_xid xid8 not null default '0',
  at_tenant uuid not null default '00000000-0000-0000-0000-000000000000',
  at_needs uuid not null default '00000000-0000-0000-0000-000000000000',
  at_job uuid not null default '00000000-0000-0000-0000-000000000000',
  sweep_tenant uuid not null default '00000000-0000-0000-0000-000000000000',
  sweep_job uuid not null default '00000000-0000-0000-0000-000000000000',
  constraint unblock_mark_is_one_row check (is_only)
) with (fillfactor = 20);
insert into windlass.unblock_mark default values;

-- Jobs that ended while more jobs waited for them than one settlement should process: the keeper processes the rest in
-- batches.
create table windlass.unblock_due (
  tenant_id uuid not null,
  needs_job_id uuid not null,
  since timestamptz not null default clock_timestamp(),
  primary key (tenant_id, needs_job_id)
);
create index unblock_due_by_age on windlass.unblock_due (since);

-- A tenant that is being deleted: when the keeper last processed it, and why it cannot continue, if so.
alter table windlass.tenants
  add column purge_checked_at timestamptz,
  add column purge_blocked text;
