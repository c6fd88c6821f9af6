-- Who may do what with triggers, events and retention; after policies.sql, which takes everything away first.
do $$
declare
  name text;
begin
  foreach name in array array['fire', 'event', 'event_pending', 'event_dispatch', 'retention', 'legal_hold', 'purge_wait'] loop
    perform windlass.guard_table(name);
    execute format('drop policy if exists tenant_reads on windlass.%I', name);
    execute format('create policy tenant_reads on windlass.%I for select to windlass_api, windlass_reader
                    using (tenant_id = (select windlass.current_tenant()))', name);
  end loop;
end
$$;

-- Schedules and events: the control plane manages, a keeper acts, and anyone who may enqueue may say that something happened.
grant select on windlass.fire, windlass.event, windlass.event_pending, windlass.event_dispatch, windlass.retention,
  windlass.legal_hold, windlass.purge_wait to windlass_api, windlass_reader;
grant execute on function windlass.emit to windlass_api, windlass_worker;
grant execute on function windlass.create_trigger, windlass.update_trigger, windlass.delete_trigger, windlass.run_trigger,
  windlass.retry_dispatch, windlass.set_retention, windlass.place_hold, windlass.release_hold to windlass_api;
grant execute on function windlass.retention_progress to windlass_api, windlass_admin;
grant execute on function windlass.lead, windlass.due_triggers, windlass.next_due_ms, windlass.fire_triggers,
  windlass.pending_events, windlass.event_triggers, windlass.dispatch_events, windlass.prune_events to windlass_worker;
