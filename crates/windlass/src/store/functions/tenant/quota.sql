-- Refuses (WL010) when the tenant has more jobs that have not ended than it may. Called by whoever has just added some, in the same
-- transaction, so that the count is the one that would be committed: all that add to one tenant pass here one after the other, by the
-- lock on its row, and each sees what those before it committed. The row is written, not only locked: in a transaction with one
-- snapshot throughout, that turns an outdated count into a serialization failure instead of a wrong answer.
-- A tenant without a limit pays one look-up by primary key here, and nothing on the hot way in, where its route says that it has none.
-- Running jobs count too: one that fails goes back into line, and must not find its place taken.
-- The counters are not added up for each job: what was free at the last count, up to a hundred places, is written at the tenant and used
-- up first. Jobs that end meanwhile only free more, so nobody is refused before a new count. Index: tally_of_tenant, total's key.
create or replace function windlass.hold_to_quota(tenant uuid, added bigint) returns void
language plpgsql
as $$
#variable_conflict use_column
declare
  quota record;
  unended bigint;
begin
  perform from windlass.tenants t where t.id = tenant and t.max_queued is not null;
  if not found then
    return;
  end if;
  update windlass.tenants t set quota_room = t.quota_room - added where t.id = tenant returning t.max_queued, t.quota_room into quota;
  if quota.quota_room >= 0 or quota.max_queued is null then
    return;
  end if;
  select coalesce(sum(c.queued + c.running + c.scheduled + c.blocked), 0) into unended from (
    select a.queued, a.running, a.scheduled, a.blocked from windlass.total a where a.tenant_id = tenant
    union all
    select d.queued, d.running, d.scheduled, d.blocked from windlass.tally d where d.tenant_id = tenant) c;
  if unended > quota.max_queued then
    raise exception 'the tenant % has all the jobs it may have', tenant using errcode = 'WL010', detail = quota.max_queued::text;
  end if;
  update windlass.tenants t set quota_room = least(quota.max_queued - unended, 100) where t.id = tenant;
end
$$;

-- Takes the lock of hold_to_quota before any other. Whoever adds a job with keys calls this first: a batch takes the keys of its second
-- job when it has passed hold_to_quota with its first, and one that held such a key while it waited for the row would wait in a circle.
create or replace function windlass.lock_quota(tenant uuid) returns void
language plpgsql
as $$
#variable_conflict use_column
begin
  perform from windlass.tenants t where t.id = tenant and t.max_queued is not null for no key update;
end
$$;
