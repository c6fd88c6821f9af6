-- Refuses (WL010) when the tenant has more jobs that have not ended than it may. Called by whoever has just added one, in the same
-- transaction, so that the count is the one that would be committed: all that add to one tenant pass here one after the other, by the
-- lock on its row, and each sees what those before it committed. The row is written, not only locked: in a transaction with one
-- snapshot throughout, that turns an outdated count into a serialization failure instead of a wrong answer.
-- A tenant without a limit pays one look-up by primary key here, and nothing on the hot way in, where its route says that it has none.
-- Running jobs count too: one that fails goes back into line, and must not find its place taken.
create or replace function windlass.hold_to_quota(tenant uuid) returns void
language plpgsql
as $$
#variable_conflict use_column
declare
  most bigint;
begin
  select t.max_queued into most from windlass.tenants t where t.id = tenant;
  if most is null then
    return;
  end if;
  update windlass.tenants t set max_queued = t.max_queued where t.id = tenant returning t.max_queued into most;
  if (select coalesce(sum(c.queued + c.running + c.scheduled + c.blocked), 0)
        from (select * from windlass.total union all select * from windlass.tally) c where c.tenant_id = tenant) > most then
    raise exception 'the tenant % has all the jobs it may have', tenant using errcode = 'WL010', detail = most::text;
  end if;
end
$$;
