-- More bounds on what one tenant can make every other one pay for.
set local role windlass_owner;

-- One row for each request to read history again, however often it is made: every row is compared with every rule.
delete from windlass.prune_again a using windlass.prune_again b
 where a.ctid < b.ctid and a.tenant_id = b.tenant_id
   and a.definition_key is not distinct from b.definition_key and a.status is not distinct from b.status;
create unique index prune_again_once on windlass.prune_again (tenant_id, definition_key, status) nulls not distinct;

-- made_by: the transaction that made the lane; see hold_to_lanes.
alter table windlass.lane add column made_by xid8;
alter table windlass.lane alter column made_by set default pg_current_xact_id();
