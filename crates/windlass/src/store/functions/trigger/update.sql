-- Replaces a trigger's fields if it still has the generation that the caller has read, and increments it. An edit that
-- does not change its times must not lose an instant that has just become due, so next_due_at is kept then. If the
-- times change, due instants that were not decided (missed) are recorded as skipped, with the reason. Returns the new
-- generation, or null if there is no such trigger or it was edited meanwhile.
-- Lock order: the trigger's row, so that a fire of the old generation has committed before, or sees a newer one; then a
-- new lane, as in a fire.
create or replace function windlass.update_trigger(
  tenant uuid, trigger uuid, seen integer, fields jsonb, changes_times boolean, next_due timestamptz, missed timestamptz[],
  why text)
returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  old record;
begin
  if not windlass.is_list(missed) then
    perform windlass.refuse_array();
  end if;
  perform windlass.tenant_for(tenant);
  perform windlass.refuse_trigger(fields, next_due);
  perform windlass.refuse_instant('missed', m) from unnest(missed) m;
  select t.overlap into old from windlass.job_triggers t
   where t.tenant_id = tenant and t.id = trigger and t.generation = seen and t.deleted_at is null for update;
  if not found then
    return null;
  end if;
  perform windlass.route(tenant, fields ->> 'definition_key', null, null); -- refuses a definition that does not exist or is not active
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
  perform windlass.must_record(tenant, array['trigger.update'], trigger::text, null,
    jsonb_build_object('label', fields -> 'label', 'definition_key', fields -> 'definition_key'));
  perform pg_notify('windlass', 'schedule');
  return seen + 1;
end
$$;

-- Deletes a trigger if it still has the generation that the caller has read. Its history is kept, so the row is only
-- marked as deleted; missed as above. Returns whether it existed.
create or replace function windlass.delete_trigger(tenant uuid, trigger uuid, seen integer, missed timestamptz[]) returns boolean
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  if not windlass.is_list(missed) then
    perform windlass.refuse_array();
  end if;
  perform windlass.tenant_for(tenant);
  perform windlass.refuse_instant('missed', m) from unnest(missed) m;
  update windlass.job_triggers t
     set deleted_at = now(), updated_at = now(), is_enabled = false, next_due_at = null, generation = t.generation + 1
   where t.tenant_id = tenant and t.id = trigger and t.deleted_at is null and t.generation = seen;
  if not found then
    return false;
  end if;
  insert into windlass.fire (tenant_id, trigger_id, due_at, generation, outcome, reason)
    select tenant, trigger, m.due, seen, 'skipped', 'deleted' from unnest(missed) m (due) on conflict do nothing;
  perform windlass.must_record(tenant, array['trigger.delete'], trigger::text);
  return true;
end
$$;
