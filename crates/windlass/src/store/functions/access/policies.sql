-- Who may do what. Run again with every change, so it must say the same thing however often it runs.
--
-- Everything that moves a job is a function that runs as the owner, so no other role can write a job's tables. The api
-- and reader roles read their tenant's rows (row-level security, forced); the worker role reads no table at all.
do $$
declare
  name text;
begin
  foreach name in array array['job', 'job_default', 'line', 'live', 'deferred', 'blocked', 'dependency', 'ordering', 'dedupe', 'idempotency',
      'expiry', 'progress', 'cancel_request', 'history', 'history_default', 'job_log', 'tally', 'total', 'lane', 'job_triggers', 'audit',
      'remote_lease'] loop
    perform windlass.guard_table(name);
    execute format('drop policy if exists tenant_reads on windlass.%I', name);
    if name not like '%\_default' then
      execute format('create policy tenant_reads on windlass.%I for select to windlass_api, windlass_reader
                      using (tenant_id = (select windlass.current_tenant()))', name);
    end if;
  end loop;
  perform windlass.guard_table('tenants');
  drop policy if exists tenant_reads on windlass.tenants;
  create policy tenant_reads on windlass.tenants for select to windlass_api, windlass_reader
    using (id = (select windlass.current_tenant()));
end
$$;

revoke all on all tables in schema windlass from public, windlass_api, windlass_worker, windlass_reader, windlass_admin;
revoke all on all functions in schema windlass from public, windlass_api, windlass_worker, windlass_reader, windlass_admin;
revoke all on all sequences in schema windlass from public, windlass_api, windlass_worker, windlass_reader, windlass_admin;

grant select on windlass.job, windlass.line, windlass.standing, windlass.live, windlass.deferred, windlass.blocked, windlass.dependency, windlass.progress,
  windlass.history, windlass.tally, windlass.total, windlass.lane, windlass.job_definitions, windlass.job_triggers, windlass.queues,
  windlass.job_workers, windlass.tenants, windlass.job_log, windlass.jobs, windlass.job_attempts, windlass.job_counts
  to windlass_api, windlass_reader;
grant select on windlass.audit to windlass_api;
grant select on windlass.migration, windlass.installed_functions to windlass_api, windlass_worker, windlass_reader;

grant execute on function windlass.state_name, windlass.state_code, windlass.outcome_name, windlass.source_name, windlass.source_code,
  windlass.readable, windlass.searchable, windlass.current_tenant to windlass_api, windlass_worker, windlass_reader;
-- Reads under the rights of whoever calls it; the list asks it for the state of one job.
grant execute on function windlass.state_of, windlass.limits_reached to windlass_api, windlass_reader;
grant execute on function windlass.enqueue, windlass.enqueue_many, windlass.enqueue_routed, windlass.enqueue_alike, windlass.enqueue_routed_many,
  windlass.enqueue_copied, windlass.route_of,
  windlass.cancel, windlass.retry, windlass.purge, windlass.purge_subject to windlass_api, windlass_worker;
grant execute on function windlass.enqueue_as, windlass.enqueue_as_many, windlass.record_audits,
  windlass.purge_tenant, windlass.ensure_tenant, windlass.set_paused, windlass.set_quiet to windlass_api;
grant execute on function windlass.define, windlass.definition to windlass_api, windlass_worker;
grant execute on function windlass.register_worker, windlass.heartbeat, windlass.stop_worker, windlass.set_waiting, windlass.active_lanes,
  windlass.claim, windlass.unclaim, windlass.settle, windlass.report_progress, windlass.write_log, windlass.promote, windlass.lost_jobs, windlass.reap, windlass.expire,
  windlass.unblock_all, windlass.fold_tallies, windlass.maintain_partitions, windlass.prune, windlass.summarize_times to windlass_worker;
grant select on windlass.remote_lease to windlass_api, windlass_reader;
grant execute on function windlass.register_remote, windlass.touch_remote, windlass.claim_remote, windlass.unclaim_remote,
  windlass.heartbeat_remote, windlass.held_remote, windlass.settle_remote, windlass.hand_over, windlass.lost_remote_jobs,
  windlass.reap_remote to windlass_worker;
