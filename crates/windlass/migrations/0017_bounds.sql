-- More limits on the cost that one tenant can cause for all others, and the way for a tenant to get below them again.
set local role windlass_owner;

-- One row for each request to read history again, regardless of how often it is made: every row is compared with every
-- rule.
delete from windlass.prune_again a using windlass.prune_again b
 where a.ctid < b.ctid and a.tenant_id = b.tenant_id
   and a.definition_key is not distinct from b.definition_key and a.status is not distinct from b.status;
create unique index prune_again_once on windlass.prune_again (tenant_id, definition_key, status) nulls not distinct;

-- Events that could not be dispatched, for the lists of problems.
create index event_pending_with_problem on windlass.event_pending (tenant_id) where problem is not null;

-- made_by: the transaction that created the lane; see limit_lanes. The others belong to retire_lanes: since when the
-- lane has had no job, and how many jobs had been purged from it then; since when it does not count for the tenant's
-- limits; and the first transaction that cannot have used it since.
alter table windlass.lane
  add column made_by xid8,
  add column idle_since timestamptz,
  add column idle_purged bigint,
  add column retired_at timestamptz,
  add column barrier xid8;
alter table windlass.lane alter column made_by set default pg_current_xact_id();

-- The last lane that retire_lanes has processed.
create table windlass.lane_mark (
  is_only boolean primary key default true,
  at_lane integer not null default 0,
  constraint lane_mark_is_one_row check (is_only)
) with (fillfactor = 20);
insert into windlass.lane_mark default values;
