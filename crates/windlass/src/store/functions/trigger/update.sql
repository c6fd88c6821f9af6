-- Replaces a trigger's fields if it still has the generation that the caller has read, and increments it. An edit that
-- does not change its times must not lose an instant that has just become due, so next_due_at is kept then. If the
-- times change, due instants that were not decided (missed) are recorded as skipped, with the reason. Returns the new
-- generation, or null if there is no such trigger or it was edited meanwhile.
-- The caller has computed next_due and missed before this call, and a fire does not change the generation. `expected` is
-- the next_due_at that the caller has read: if it has changed since, or has passed and is not in `missed`, the result is
-- null too, and the caller reads and computes again under the lock, which stays. Without it (a caller of the previous
-- release), the result is null only if next_due is not after an instant that has fired: it would fire again.
-- Lock order: the trigger's row, so that a fire of the old generation has committed before, or sees a newer one; then a
-- new lane, as in a fire. The row of the audit trail names the changed fields, also those whose values it does not contain.
drop function if exists windlass.update_trigger(
  uuid, uuid, integer, jsonb, boolean, timestamptz, timestamptz[], text); -- of earlier builds
create or replace function windlass.update_trigger(
  tenant uuid, trigger uuid, seen integer, fields jsonb, changes_times boolean, next_due timestamptz, missed timestamptz[],
  why text, expected timestamptz default null)
returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  old record;
  was jsonb;
begin
  if not windlass.is_list(missed) then
    perform windlass.raise_array();
  end if;
  perform windlass.check_read_committed(); -- fires are read under the lock
  perform windlass.tenant_for(tenant);
  perform windlass.check_trigger(fields, next_due);
  if not windlass.is_full(missed, cardinality(missed)) then
    perform windlass.raise_list('missed');
  elsif missed <> '{}' then
    perform windlass.check_not_null(jsonb_build_object('why', why));
  end if;
  perform windlass.check_instant('missed', m) from unnest(missed) m;
  select t.overlap, t.next_due_at, to_jsonb(t) as fields into old from windlass.job_triggers t
   where t.tenant_id = tenant and t.id = trigger and t.generation = seen and t.deleted_at is null for update;
  if not found then
    return null;
  end if;
  if changes_times and (windlass.is_overtaken(old.next_due_at, expected, missed, next_due)
      or exists (select from windlass.fire f where f.tenant_id = tenant and f.trigger_id = trigger and f.outcome = 'fired'
                    and f.kind <> 'manual' and f.due_at between next_due and clock_timestamp())) then
    return null;
  end if;
  perform windlass.route(tenant, fields ->> 'definition_key', null, null); -- refuses a definition that does not exist or is not active
  was := windlass.recorded_trigger(tenant, trigger);
  update windlass.job_triggers t
     set label = f.label, is_enabled = f.is_enabled, trigger_type = f.trigger_type, event_name = f.event_name,
         conditions = f.conditions, cron_expr = f.cron_expr, timezone = f.timezone, definition_id = d.id,
         payload_template = fields -> 'payload_template', dedupe_window_seconds = f.dedupe_window_seconds, misfire = f.misfire,
         misfire_max = f.misfire_max, misfire_window_seconds = f.misfire_window_seconds,
         misfire_grace_seconds = f.misfire_grace_seconds, overlap = f.overlap, jitter_seconds = f.jitter_seconds,
         starts_at = f.starts_at, ends_at = f.ends_at, generation = seen + 1, updated_at = now(),
         next_due_at = case when changes_times then next_due else t.next_due_at end
    from jsonb_to_record(fields) f (label text, is_enabled boolean, trigger_type text, event_name text, conditions jsonb,
        cron_expr text, timezone text, dedupe_window_seconds integer, misfire text, misfire_max integer,
        misfire_window_seconds integer, misfire_grace_seconds integer, overlap text, jitter_seconds integer, starts_at timestamptz,
        ends_at timestamptz)
    join windlass.job_definitions d on d.key = fields ->> 'definition_key'
   where t.tenant_id = tenant and t.id = trigger;
  -- Instants that were decided since the caller's read already have a row.
  insert into windlass.fire (tenant_id, trigger_id, due_at, generation, outcome, reason)
    select tenant, trigger, m.due, seen, 'skipped', why from unnest(missed) m (due) on conflict do nothing;
  if old.overlap = 'allow' and fields ->> 'overlap' <> 'allow' then
    -- The jobs of a trigger that may overlap are not tracked; from now on they are.
    update windlass.fire f set is_open = true
     where f.tenant_id = tenant and f.trigger_id = trigger and f.outcome = 'fired'
       and f.due_at in (select r.due_at from windlass.fire r where r.tenant_id = tenant and r.trigger_id = trigger order by r.due_at desc
         limit 1000);
  end if;
  perform windlass.record_act(tenant, 'trigger.update', trigger::text, was, windlass.recorded_trigger(tenant, trigger)
    || jsonb_build_object('changed', (
         select jsonb_agg(f.key order by f.key) from windlass.job_triggers t cross join lateral jsonb_each(to_jsonb(t)) f
          where t.tenant_id = tenant and t.id = trigger and f.value is distinct from old.fields -> f.key
            and f.key not in ('generation', 'updated_at'))));
  perform pg_notify('windlass', 'schedule');
  return seen + 1;
end
$$;

-- Whether the decision of a caller about a trigger's times is older than the trigger's row; see above.
create or replace function windlass.is_overtaken(
  next_due_at timestamptz, expected timestamptz, missed timestamptz[], next_due timestamptz) returns boolean
language sql volatile
as $$
  select expected is not null
    and (windlass.shown_instant(next_due_at) is distinct from expected
      or next_due_at <= clock_timestamp() and expected <> all (coalesce(missed, '{}')) and next_due_at is distinct from next_due)
$$;

-- Deletes a trigger if it still has the generation that the caller has read. Its history is kept, so the row is only
-- marked as deleted; missed and expected as above. Returns whether it was deleted.
drop function if exists windlass.delete_trigger(uuid, uuid, integer, timestamptz[]); -- of earlier builds
create or replace function windlass.delete_trigger(
  tenant uuid, trigger uuid, seen integer, missed timestamptz[], expected timestamptz default null)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  old record;
  was jsonb;
begin
  if not windlass.is_list(missed) then
    perform windlass.raise_array();
  end if;
  perform windlass.tenant_for(tenant);
  if not windlass.is_full(missed, cardinality(missed)) then
    perform windlass.raise_list('missed');
  end if;
  perform windlass.check_instant('missed', m) from unnest(missed) m;
  select t.next_due_at into old from windlass.job_triggers t
   where t.tenant_id = tenant and t.id = trigger and t.generation = seen and t.deleted_at is null for update;
  if not found or windlass.is_overtaken(old.next_due_at, expected, missed, null) then
    return false;
  end if;
  was := windlass.recorded_trigger(tenant, trigger);
  update windlass.job_triggers t
     set deleted_at = now(), updated_at = now(), is_enabled = false, next_due_at = null, generation = t.generation + 1
   where t.tenant_id = tenant and t.id = trigger;
  insert into windlass.fire (tenant_id, trigger_id, due_at, generation, outcome, reason)
    select tenant, trigger, m.due, seen, 'skipped', 'deleted' from unnest(missed) m (due) on conflict do nothing;
  perform windlass.record_act(tenant, 'trigger.delete', trigger::text, was);
  return true;
end
$$;
