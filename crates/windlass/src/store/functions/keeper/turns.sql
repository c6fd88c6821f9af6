-- Tenants that have rows due in a table, at most `most` of them, in random order; null if there are none. A duty with
-- more work than one round takes an equal share from each of these, so that one tenant's backlog does not delay the
-- others. A round that can process everything needs no turns. Steps from one tenant to the next and reads the first row
-- of each, so the cost depends on the number of waiting tenants, not of their rows.
-- Index: needs one on (tenant_id, due_column), and enable_seqscan = off in the caller: the planner may have no
-- statistics of the table.
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
