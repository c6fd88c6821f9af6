-- Tenants that have something due in a table, at most `most` of them, in any order; null if there is none. A duty that finds more than it can do
-- in one round takes an equal share from each of these, so that one tenant's backlog holds up nobody else. A round that can do all that is
-- due needs no turns.
-- Walks from one tenant to the next and looks at the first row of each, so it costs by tenants that wait, not by what they have waiting.
-- Needs an index on (tenant_id, due_column), and enable_seqscan = off in the caller: the planner may know nothing of the table.
create or replace function windlass.tenants_in_turn(of_table text, due_column text, at timestamptz, most integer) returns uuid[]
language plpgsql
as $$
declare
  tenants uuid[];
begin
  execute format($walk$
    with recursive walk (tenant_id) as (
      (select x.tenant_id from windlass.%1$I x where x.%2$I is not null order by x.tenant_id limit 1)
      union all
      select (select x.tenant_id from windlass.%1$I x where x.tenant_id > w.tenant_id and x.%2$I is not null order by x.tenant_id limit 1)
        from walk w where w.tenant_id is not null)
    select array_agg(t.tenant_id) from (
      select w.tenant_id from walk w
       where exists (select from windlass.%1$I x where x.tenant_id = w.tenant_id and x.%2$I <= $1)
       order by random() limit $2) t$walk$, of_table, due_column) into tenants using at, most;
  return tenants;
end
$$;
