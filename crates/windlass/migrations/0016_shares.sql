-- What keeps the cost of one tenant's work apart from that of the others.
set local role windlass_owner;

-- Places under max_queued that were free at the last count and are not used yet; see hold_to_quota. Null makes it count.
alter table windlass.tenants add column quota_room bigint;
drop function if exists windlass.hold_to_quota(uuid);

-- A tenant's own differences, for the count of its quota.
create index tally_of_tenant on windlass.tally (tenant_id);

-- The lanes of the definitions that a worker serves; see active_lanes.
create index lane_of_definition on windlass.lane (definition_id, tenant_id);
