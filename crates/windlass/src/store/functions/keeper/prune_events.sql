-- Deletes events past their retention (30 days, or the tenant's rule) with their dispatches, and fires of more than 90
-- days ago. Keeps events that are still in the outbox, and all events and fires of a tenant under legal hold. Ids start
-- with their time, so the old events of a tenant are at the start of its range in the primary key. Tenants come in
-- random order, each with a tenth of a round at first, so that a tenant with more events than a round deletes does not
-- delay the others.
-- Lock order: the gate `hold` of the tenant, events, dispatches. The hold is read again under the gate: one that was
-- placed since the round started is seen, and one that is placed later waits for this round. Rows that an open
-- transaction has locked, and tenants whose hold is being placed, are left for the next round.
create or replace function windlass.prune_events(most integer default 1000, out moved integer, out has_more boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set enable_seqscan = off
set jit = off
set lock_timeout = '200ms'
as $$
#variable_conflict use_column
declare
  old record;
  share integer := greatest(1, most / 10);
  is_over_share boolean := false;
  ids uuid[];
begin
  moved := 0;
  has_more := false;
  if not windlass.try_gate('prune events') then
    return;
  end if;
  for old in -- twice, if a tenant has more than a share: it gets the rest of the round
    select t.id, windlass.uuid7_floor(clock_timestamp() - case when r.tenant_id is null then interval '720 hours'
                                                               else make_interval(secs => r.keep_seconds) end) as bound, pass
      from generate_series(1, 2) pass cross join windlass.tenants t left join windlass.retention r on r.tenant_id = t.id
        and r.definition_key = '*' and r.status = 'event'
     where r.tenant_id is null or r.keep_seconds is not null
     order by pass, random()
  loop
    exit when moved >= most or (old.pass = 2 and not is_over_share);
    continue when windlass.is_held_whole(old.id)
      or not exists (select from windlass.event e where e.tenant_id = old.id and e.id < old.bound);
    continue when not windlass.may_prune(old.id);
    begin
      ids := array(
        select e.id from windlass.event e
         where e.tenant_id = old.id and e.id < old.bound
           and not exists (select from windlass.event_pending p where p.tenant_id = e.tenant_id and p.event_id = e.id)
         order by e.id limit case old.pass when 1 then least(most - moved, share) else most - moved end
           for update skip locked);
      is_over_share := is_over_share or cardinality(ids) >= share;
      if ids <> '{}' then
        delete from windlass.event_dispatch d where d.tenant_id = old.id and d.event_id = any (ids);
        delete from windlass.event e where e.tenant_id = old.id and e.id = any (ids);
        moved := moved + cardinality(ids);
      end if;
    exception when lock_not_available or deadlock_detected then
      null; -- a transaction has locked a dispatch and not its event: left for the next round
    end;
  end loop;
  perform windlass.prune_fires(most);
  has_more := moved >= most;
end
$$;

-- Deletes at most `most` fires of more than 90 days ago. A tenant whose hold is being placed is left out of the next
-- search, so that its fires do not fill the round.
-- Index: fire_by_time. It is a BRIN index, so the old fires of a tenant under hold are read in every round.
create or replace function windlass.prune_fires(most integer) returns void
language plpgsql
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  old record;
  kept uuid[] := '{}';
  known integer;
begin
  loop
    known := cardinality(kept);
    for old in
      select f.tenant_id, array_agg(f.trigger_id) as triggers, array_agg(f.due_at) as dues, array_agg(f.generation) as generations
        from (select f.tenant_id, f.trigger_id, f.due_at, f.generation from windlass.fire f
               where f.decided_at < clock_timestamp() - interval '2160 hours' and f.tenant_id <> all (kept)
                 and f.tenant_id not in (select h.tenant_id from windlass.legal_hold h where h.job_id is null and h.subject_id is null)
               limit most for update of f skip locked) f
       group by f.tenant_id
    loop
      if windlass.may_prune(old.tenant_id) then
        delete from windlass.fire f using unnest(old.triggers, old.dues, old.generations) o (trigger, due, generation)
         where f.tenant_id = old.tenant_id and f.trigger_id = o.trigger and f.due_at = o.due and f.generation = o.generation;
      else
        kept := kept || old.tenant_id;
      end if;
    end loop;
    exit when cardinality(kept) = known;
  end loop;
end
$$;

-- Whether everything of the tenant is under legal hold.
create or replace function windlass.is_held_whole(tenant uuid) returns boolean
language plpgsql stable
as $$
#variable_conflict use_column
begin
  return exists (select from windlass.legal_hold h where h.tenant_id = tenant and h.job_id is null and h.subject_id is null);
end
$$;

-- Whether rows of the tenant may be deleted until the end of this transaction: a hold on everything that was committed
-- forbids it, one that is being placed too, and one that is placed later waits.
create or replace function windlass.may_prune(tenant uuid) returns boolean
language plpgsql
as $$
begin
  return windlass.try_share_gate(tenant, 'hold') and not windlass.is_held_whole(tenant);
end
$$;
