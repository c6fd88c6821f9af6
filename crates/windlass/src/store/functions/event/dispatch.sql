-- Applies the dispatcher's decisions about a batch of events in one transaction: the events leave the outbox, and each
-- trigger that an event matched gets one row and, unless rendering failed, one job. ords: the event of each match.
-- afters: the last trigger that each event had processed when the decision was made (null: none); untils: the last one
-- now (null: all). An event with an until stays in the outbox for the remaining triggers. An event with a match of an
-- older trigger generation stays in the outbox and is decided again. Events that another dispatcher has locked or
-- dispatched are skipped.
-- Trap: a statement that would wait for an open transaction of the tenant (the quota, a key, the first use of a lane)
-- fails the call after 200 ms with lock_not_available. The dispatcher then finds the tenant (see apply.rs).
-- Lock order: triggers by key, shared, so that an edit waits for this call or is visible to it; then the outbox by seq.
create or replace function windlass.dispatch_events(
  tenants uuid[], events uuid[],
  ords integer[], triggers uuid[], generations integer[], reasons text[], jobs uuid[], keys text[], payloads jsonb[],
  dedupe_keys text[], windows integer[], afters uuid[] default null, untils uuid[] default null,
  out dispatched integer, out fired integer)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '200ms'
as $$
#variable_conflict use_column
declare
  stale integer[];
  won integer[];
  item record;
begin
  if not (windlass.is_list(tenants) and windlass.is_list(events) and windlass.is_list(ords)
      and windlass.is_list(triggers) and windlass.is_list(generations) and windlass.is_list(reasons) and windlass.is_list(jobs)
      and windlass.is_list(keys) and windlass.is_list(payloads) and windlass.is_list(dedupe_keys) and windlass.is_list(windows)
      and windlass.is_list(afters) and windlass.is_list(untils)) then
    perform windlass.raise_array();
  end if;
  perform windlass.tenants_for(tenants);
  perform windlass.stay_durable();
  perform from windlass.job_triggers t
    join (select distinct tenants[i.ord] as tenant, i.trigger from unnest(ords, triggers) i (ord, trigger)) m
      on t.tenant_id = m.tenant and t.id = m.trigger
    order by t.tenant_id, t.id for share of t;
  stale := array(
    select distinct i.ord from unnest(ords, triggers, generations) i (ord, trigger, generation)
     where not exists (select from windlass.job_triggers t where t.tenant_id = tenants[i.ord] and t.id = i.trigger
                          and t.generation = i.generation and t.is_enabled and t.deleted_at is null));
  with mine as materialized (
    select p.tenant_id, p.event_id, n.ord, untils[n.ord] as until from windlass.event_pending p
      join unnest(tenants, events) with ordinality n (tenant, event, ord) on p.tenant_id = n.tenant and p.event_id = n.event
     where n.ord <> all (stale) and p.after_trigger is not distinct from afters[n.ord]
     order by p.seq for update of p skip locked),
  gone as (
    delete from windlass.event_pending p using mine m
     where m.until is null and p.tenant_id = m.tenant_id and p.event_id = m.event_id returning m.ord),
  moved as (
    update windlass.event_pending p set after_trigger = m.until from mine m
     where m.until is not null and p.tenant_id = m.tenant_id and p.event_id = m.event_id returning m.ord)
  select coalesce(array_agg(g.ord), '{}') into won from (select ord from gone union all select ord from moved) g;
  dispatched := cardinality(won);

  insert into windlass.event_dispatch (tenant_id, event_id, trigger_id, outcome, reason)
    select tenants[i.ord], events[i.ord], i.trigger, 'failed', i.reason
      from unnest(ords, triggers, reasons) i (ord, trigger, reason) where i.ord = any (won) and i.reason is not null
    on conflict do nothing;

  fired := 0;
  for item in
    select i.*, tenants[i.ord] as tenant, events[i.ord] as event
      from unnest(ords, triggers, reasons, jobs, keys, payloads, dedupe_keys, windows)
        i (ord, trigger, reason, job, key, payload, dedupe_key, window_seconds)
     where i.ord = any (won) and i.reason is null
     -- Keys are locked in key order, as in every batch of enqueues.
     order by i.dedupe_key collate "C", i.ord
  loop
    fired := fired + windlass.dispatch_one(item.tenant, item.event, item.trigger, item.job, item.key, item.payload,
      item.dedupe_key, item.window_seconds);
  end loop;
end
$$;

-- Applies one event to one trigger; returns 1 if that created a job. The primary key guarantees exactly once: the row
-- is inserted first, and the job in the same transaction. If the enqueue refuses the job, the message is stored as the
-- reason, for a retry.
create or replace function windlass.dispatch_one(
  tenant uuid, event uuid, trigger uuid, job uuid, key text, payload jsonb, dedupe_key text, window_seconds integer)
returns integer
language plpgsql
as $$
#variable_conflict use_column
declare
  made record;
  refusal text;
begin
  begin
    insert into windlass.event_dispatch (tenant_id, event_id, trigger_id, outcome, job_id) values (tenant, event, trigger, 'fired', job)
      on conflict do nothing;
    if not found then
      return 0;
    end if;
    select q.id, q.is_duplicate into made
      from windlass.event e cross join lateral windlass.enqueue(dispatch_one.key, dispatch_one.payload, tenant, source => 'event',
        source_ref => event::text, correlation_id => coalesce(e.correlation_id, event::text),
        trace => case when windlass.is_traceparent(e.trace) then e.trace end, job_id => job, -- an older event may have any text
        dedupe_key => case when window_seconds > 0 then dispatch_one.dedupe_key end,
        uniqueness => case when window_seconds > 0 then jsonb_build_object('window_seconds', window_seconds) end) q
     where e.tenant_id = tenant and e.id = event;
    if made.is_duplicate then
      update windlass.event_dispatch d set outcome = 'deduplicated', job_id = made.id
       where d.tenant_id = tenant and d.event_id = event and d.trigger_id = trigger;
      return 0;
    end if;
    return 1;
  exception when others then
    if sqlstate !~ '^(WL|22|23)' then
      raise;
    end if;
    refusal := left(sqlerrm, 500);
  end;
  insert into windlass.event_dispatch (tenant_id, event_id, trigger_id, outcome, reason)
    values (tenant, event, trigger, 'failed', refusal) on conflict do nothing;
  return 0;
end
$$;

-- Retries a trigger that could not be rendered or whose job was refused. The failed row is deleted under its lock, so
-- two retries create one job. Returns the new outcome, or null if nothing had failed.
-- Lock order: the event, shared, so that retention skips it while this transaction is open; then the dispatch.
create or replace function windlass.retry_dispatch(
  tenant uuid, event uuid, trigger uuid, reason text, job uuid, key text, payload jsonb, dedupe_key text, window_seconds integer,
  out outcome text, out job_id uuid, out why text)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  if window_seconds not between 0 and 31622400 then
    perform windlass.raise_span('window_seconds', 0, 31622400);
  end if;
  perform windlass.tenant_for(tenant);
  perform windlass.stay_durable();
  perform from windlass.event e where e.tenant_id = tenant and e.id = event for key share;
  delete from windlass.event_dispatch d
   where d.tenant_id = tenant and d.event_id = event and d.trigger_id = trigger and d.outcome = 'failed';
  if not found then
    return;
  end if;
  if retry_dispatch.reason is null then
    perform windlass.dispatch_one(tenant, event, trigger, job, retry_dispatch.key, retry_dispatch.payload, retry_dispatch.dedupe_key,
      retry_dispatch.window_seconds);
  else
    insert into windlass.event_dispatch (tenant_id, event_id, trigger_id, outcome, reason)
      values (tenant, event, trigger, 'failed', retry_dispatch.reason);
  end if;
  select d.outcome, d.job_id, d.reason into outcome, job_id, why from windlass.event_dispatch d
   where d.tenant_id = tenant and d.event_id = event and d.trigger_id = trigger;
  perform windlass.record_act(tenant, 'event.retry', event::text, null,
    jsonb_build_object('trigger_id', trigger, 'outcome', outcome, 'reason', why, 'job_id', job_id));
end
$$;
