-- One step of deleting a tenant. The first step marks it `deleting`, so that nothing new is enqueued; each step deletes a
-- batch (see purge_step). Returns the number of deleted jobs, and whether the caller is done. Resumable at any point: call
-- until done. Waits at most three seconds for a hold that is being placed, and for a transaction that has locked the
-- tenant's row.
create or replace function windlass.purge_tenant(tenant uuid, most integer, out purged integer, out done boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '3s'
as $$
#variable_conflict use_column
declare
  is_new boolean;
  was jsonb;
begin
  perform windlass.check_read_committed();
  if tenant is null or most is null or most < 1 then -- with 0, nothing would be deleted, which looks like nothing left
    raise exception 'tenant is required, and most must be at least 1, not %', coalesce(most::text, 'null')
      using errcode = 'WL007', column = case when tenant is null then 'tenant' else 'most' end;
  end if;
  perform windlass.tenant_for(tenant);
  perform windlass.check_default_tenant(tenant);
  purged := 0;
  done := not exists (select from windlass.tenants t where t.id = tenant);
  if done then
    return; -- the gate of holds would stay
  end if;
  perform windlass.check_held_tenant(tenant);
  perform from windlass.tenants t where t.id = tenant and t.status <> 'deleting' for no key update;
  was := windlass.shown_tenant(tenant);
  update windlass.tenants t set status = 'deleting', updated_at = now() where t.id = tenant and t.status <> 'deleting';
  is_new := found;
  if is_new then
    -- The current tenant can be deleted too: an application that serves one tenant at a time cannot name one without. The entry is in the
    -- trail of the installation, as always.
    perform windlass.record_act('00000000-0000-0000-0000-000000000000', 'tenant.delete', tenant::text, was, windlass.shown_tenant(tenant));
    perform windlass.watch_tenants();
  end if;
  select s.purged, s.done and not is_new into purged, done from windlass.purge_step(tenant, most, false) s;
exception when lock_not_available then
  perform windlass.raise_locked('the tenant');
end
$$;

-- Deletes a batch of a tenant that is marked as `deleting`; the last step deletes the tenant itself. Within the
-- transaction that marked the tenant, the caller is done when no row is left: others do not see the mark before the
-- commit and may still enqueue, so a keeper takes the last step. The last step waits for every transaction that may have
-- read the tenant before it was marked and has not committed its jobs: each enqueue function reads the tenant after its
-- transaction has an id. The fast path reads it only while tenants are watched (see enqueue_routed and watch.sql). A
-- barrier in the future comes from another cluster, before the database was restored here; no transaction of that time
-- exists, so the barrier is set again.
--
-- A step that cannot get its locks gives up and changes nothing: the next one tries again, and a keeper does so too. In
-- the transaction that marked the tenant, the caller is then done: an application may wait for the tenant's row, which
-- that transaction holds, and neither would end.
-- Lock order (decision 0020): the gate of holds; the tenant's row, for the barrier and for the last step; then as in a
-- purge.
drop function if exists windlass.purge_step(uuid, integer); -- of earlier builds
create or replace function windlass.purge_step(tenant uuid, most integer, by_keeper boolean, out purged integer, out done boolean)
language plpgsql
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '200ms'
set jit = off
as $$
#variable_conflict use_column
declare
  now_running pg_snapshot := pg_current_snapshot();
  was record;
begin
  perform windlass.check_default_tenant(tenant); -- whoever marked it
  purged := 0;
  select t.updated_at = now() as is_marked_here, least(t.purge_barrier, pg_snapshot_xmax(now_running)) as barrier into was
    from windlass.tenants t where t.id = tenant;
  done := not found;
  if done then
    return;
  end if;
  begin
    perform windlass.check_held_tenant(tenant);
    if not was.is_marked_here then
      update windlass.tenants t set purge_barrier = was.barrier where t.id = tenant and t.purge_barrier is distinct from was.barrier;
    end if;
    purged := windlass.purge_unaudited(tenant, array(select b.id from windlass.job b where b.tenant_id = tenant limit most));
    if purged > 0 then
      return;
    elsif was.is_marked_here then
      done := not windlass.purge_other_rows(tenant, most);
    elsif not exists (select from pg_snapshot_xip(now_running) x (id) where x.id < was.barrier) then
      perform from windlass.tenants t where t.id = tenant for update;
      done := not windlass.purge_other_rows(tenant, most);
      -- The transaction of another caller may stay open, and would lock the gate of all replacements: a keeper does the rest.
      if windlass.forget_retiring(tenant, most, by_keeper) then
        done := done and not by_keeper;
      elsif done then
        perform windlass.purge_last_rows(tenant);
      end if;
    end if;
  exception when lock_not_available or deadlock_detected then
    purged := 0;
    done := was.is_marked_here;
  end;
end
$$;

-- Refuses (WL003) to delete the default tenant, which an application with one tenant never names.
create or replace function windlass.check_default_tenant(tenant uuid) returns void
language plpgsql
as $$
begin
  if tenant = '00000000-0000-7000-8000-000000000001' then
    raise exception 'the default tenant cannot be deleted' using errcode = 'WL003', detail = tenant::text;
  end if;
end
$$;

-- Refuses (WL020) to delete a tenant with data under a legal hold. Waits for a hold that is being placed.
create or replace function windlass.check_held_tenant(tenant uuid) returns void
language plpgsql
as $$
#variable_conflict use_column
begin
  perform windlass.share_gate(tenant, 'hold');
  if exists (select from windlass.legal_hold h where h.tenant_id = tenant) then
    raise exception 'some data of the tenant is under legal hold' using errcode = 'WL020', detail = tenant::text;
  end if;
end
$$;

-- Deletes a batch of a deleted tenant's rows from the tables that may have many of them: at most `most` of each. Each
-- has an index that starts with the tenant; its pull workers are named NAME@TENANT. Returns whether there were any.
create or replace function windlass.purge_other_rows(tenant uuid, most integer) returns boolean
language plpgsql
as $$
#variable_conflict use_column
declare
  of_table text;
  gone integer;
  has_gone boolean := false;
begin
  foreach of_table in array array['event_pending', 'event_dispatch', 'event', 'fire', 'job_triggers', 'dedupe', 'idempotency',
      'request_keys', 'ordering', 'dependency', 'unblock_due', 'tally', 'activity', 'pull_lease', 'expiry', 'purge_wait', 'prune_passed',
      'cancel_request'] loop
    execute format('delete from windlass.%I r
                     where r.ctid = any (array(select o.ctid from windlass.%1$I o where o.tenant_id = $1 limit $2))', of_table)
      using tenant, most;
    get diagnostics gone = row_count;
    has_gone := has_gone or gone > 0;
  end loop;
  -- By the job: these are partitioned, and a ctid is unique only within a partition.
  foreach of_table in array array['progress', 'job_log'] loop
    execute format('delete from windlass.%I r where r.tenant_id = $1
                       and r.job_id = any (array(select o.job_id from windlass.%1$I o where o.tenant_id = $1 limit $2))', of_table)
      using tenant, most;
    get diagnostics gone = row_count;
    has_gone := has_gone or gone > 0;
  end loop;
  delete from windlass.job_workers w where w.id = any (array( -- two reads: there is an index of each
    (select o.id from windlass.job_workers o where right(o.worker_id, 36) = tenant::text and o.stopped_at is null limit most)
    union all
    (select o.id from windlass.job_workers o where right(o.worker_id, 36) = tenant::text and o.stopped_at is not null limit most)));
  return found or has_gone;
end
$$;

-- Deletes the rest, and the tenant itself. The row of all tenants is the last one: nothing is waited for while it is
-- locked.
create or replace function windlass.purge_last_rows(tenant uuid) returns void
language plpgsql
as $$
#variable_conflict use_column
begin
  delete from windlass.retention r where r.tenant_id = tenant;
  delete from windlass.prune_again a where a.tenant_id = tenant;
  delete from windlass.keeper_mark m where m.duty like 'prune % ' || tenant;
  update windlass.leftover_mark m set at_tenant = '00000000-0000-0000-0000-000000000000', at_key = '' where m.at_tenant = tenant;
  delete from windlass.problem t where t.tenant_id = tenant;
  delete from windlass.password_resets p where p.by_tenant = tenant;
  update windlass.sessions s set chosen_tenant = null where s.chosen_tenant = tenant;
  delete from windlass.members m where m.tenant_id = tenant;
  delete from windlass.api_tokens k where k.tenant_id = tenant;
  delete from windlass.total t where t.tenant_id = tenant;
  delete from windlass.lane l where l.tenant_id = tenant;
  delete from windlass.gate g where g.of_id = tenant;
  delete from windlass.tenants t where t.id = tenant;
  insert into windlass.keeper_mark as m (duty, reached) values ('tenant deleted', clock_timestamp())
    on conflict (duty) do update set reached = excluded.reached, updated_at = now();
end
$$;
