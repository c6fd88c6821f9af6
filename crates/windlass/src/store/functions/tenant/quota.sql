-- Refuses (WL010) new jobs of a tenant that exceeds its quota of unfinished jobs. Called after jobs were added, in the
-- same transaction, so that it counts what would be committed. A tenant without a limit costs one lookup by primary key
-- here, and nothing on the fast path, where the route shows that there is none. Running jobs count too: one that fails
-- is queued again and must still fit. The counters are not summed for each job: up to a hundred free places of the last
-- count are stored with the tenant and used first. Jobs that end meanwhile only free more, so no job is refused without
-- a new count. None are stored while a transaction may have jobs that the count cannot see and that did not pass here: one that
-- was in progress when the limit was set (see open_quota).
-- Index: tally_of_tenant, total's key.
-- Lock: the tenant's row, so that all transactions that add jobs to one tenant are serialized and see what the previous
-- ones committed. The row is written and not only locked: in a transaction with a fixed snapshot, that turns an
-- outdated count into a serialization failure.
create or replace function windlass.limit_to_quota(tenant uuid, added bigint) returns void
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
  update windlass.tenants t set quota_left = t.quota_left - added where t.id = tenant returning t.max_queued, t.quota_left into quota;
  if quota.quota_left >= 0 or quota.max_queued is null then
    return;
  end if;
  select coalesce(sum(c.queued + c.running + c.scheduled + c.blocked), 0) into unended from (
    select a.queued, a.running, a.scheduled, a.blocked from windlass.total a where a.tenant_id = tenant
    union all
    select d.queued, d.running, d.scheduled, d.blocked from windlass.tally d where d.tenant_id = tenant) c;
  if unended > quota.max_queued then
    raise exception 'the tenant % has reached its job quota', tenant using errcode = 'WL010', detail = quota.max_queued::text;
  end if;
  update windlass.tenants t set quota_left = case when windlass.is_quota_open(tenant) then 0 else least(quota.max_queued - unended, 100) end
   where t.id = tenant;
end
$$;

-- Notes that a limit was set: transactions in progress may have added jobs without it, and those are visible only after their
-- commit. Its caller has locked the tenant's row.
create or replace function windlass.open_quota(tenant uuid) returns void
language sql
as $$
  insert into windlass.gate (of_id, purpose) values (tenant, 'quota') on conflict (of_id, purpose) do update set turn = null
$$;

-- Whether such a transaction may still be in progress. The first call after the limit was set stores the transactions that
-- have started, and the note is deleted when all of them have ended. In a database that was restored into another cluster,
-- their ids may be in the future, and are stored again. Called under the lock on the tenant's row.
create or replace function windlass.is_quota_open(tenant uuid) returns boolean
language plpgsql
as $$
#variable_conflict use_column
declare
  now_running constant pg_snapshot := pg_current_snapshot();
  barrier xid8;
begin
  select g.turn into barrier from windlass.gate g where g.of_id = tenant and g.purpose = 'quota';
  if not found then
    return false;
  elsif barrier is null or barrier > pg_snapshot_xmax(now_running) then
    update windlass.gate g set turn = pg_snapshot_xmax(now_running) where g.of_id = tenant and g.purpose = 'quota';
    return true;
  elsif barrier > pg_snapshot_xmin(now_running) then
    return true;
  end if;
  delete from windlass.gate g where g.of_id = tenant and g.purpose = 'quota';
  return false;
end
$$;

-- Takes the lock of limit_to_quota before any other. Functions that add a job with keys call it first: a batch takes the
-- keys of its second job after limit_to_quota of its first, so a transaction that held such a key while it waited for
-- the row would deadlock.
create or replace function windlass.lock_quota(tenant uuid) returns void
language plpgsql
as $$
#variable_conflict use_column
begin
  perform from windlass.tenants t where t.id = tenant and t.max_queued is not null for no key update;
end
$$;

-- Takes the lock on the tenant's row that the rest of an enqueue needs, before a lane is created: that of lock_quota, or,
-- in a transaction with a fixed snapshot, that of check_tenants_active. Others hold the row while they wait for the lane.
create or replace function windlass.lock_tenant(tenant uuid) returns void
language plpgsql
as $$
#variable_conflict use_column
begin
  perform windlass.lock_quota(tenant);
  if current_setting('transaction_isolation') <> 'read committed' then
    perform from windlass.tenants t where t.id = tenant for share;
  end if;
end
$$;
