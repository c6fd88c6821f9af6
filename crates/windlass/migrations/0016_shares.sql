-- Separates the cost of one tenant's work from that of the others.
set local role windlass_owner;

-- Jobs that were still allowed under max_queued at the last count and are not used yet; see limit_to_quota. Null forces
-- a count.
alter table windlass.tenants add column quota_left bigint;

-- A tenant's own differences, for its quota.
create index tally_of_tenant on windlass.tally (tenant_id);

-- The lanes of a worker's definitions; see active_lanes.
create index lane_of_definition on windlass.lane (definition_id, tenant_id);
