-- New dependencies, in the order in which the keeper checks them (see unblock_new). The ids are one value: with the tenant
-- as a column of its own, the planner took this index for the dependencies of one tenant while the table had no
-- statistics, and read those of all tenants.
set local role windlass_owner;

drop index windlass.dependency_by_xid;
create index dependency_by_xid on windlass.dependency (xid, (uuid_send(tenant_id) || uuid_send(needs_job_id) || uuid_send(job_id)));
