-- Execute privileges on every function. This is the last file, so every function exists. Only the owner can execute a
-- function that is not listed. Only differences are granted or revoked.
--
-- app: applications, and the roles that JWTs name. Each of its functions refuses a tenant other than the current one,
-- and refuses a call without a current tenant unless the default tenant is the only one (tenant_for).
-- puller: SQL workers, which take and end jobs of the current tenant and do nothing else. Refused like an application.
-- worker, keeper: the functions that worker and keeper processes call, for all tenants.
-- server: identity and administration, and all of the above, because the server implements the worker protocol and can
-- run the keeper. Only the server can look up credentials and read hashes of passwords and tokens.
-- admin: requests of super-admins, without a current tenant.
-- operator: people with their own login, and the commands that they run on the database. Administration without
-- sign-ins, accounts and members: an operator cannot read a password hash or act as another person. Acts for the
-- current tenant, or for all tenants if there is none.
do $$
declare
  change record;
begin
  for change in
    with wanted as (
      select f.function, 'windlass_' || r.role as role
        from (values
          ('app reader worker puller keeper server admin operator',
           'state_name state_code outcome_name source_name source_code readable current_tenant
            caller can_act_as routes_jobs serves_all_tenants'),
          ('app reader server admin operator', 'state_of attempts_of limits_reached shown_instant trigger_fields is_draining'),
          ('keeper server admin operator', 'problems'), -- of all tenants if there is no current one
          ('app worker server admin operator', 'enqueue enqueue_many enqueue_routed enqueue_alike enqueue_routed_many lock_keys
            unlock_keys emit'),
          ('app worker keeper server admin operator', 'route_of definition'),
          ('app worker server admin operator', 'cancel retry cancel_many retry_many'),
          ('worker server admin operator', 'define'),
          ('worker server',
           'register_worker heartbeat stop_worker set_waiting active_lanes lanes_with_work has_several_tenants claim unclaim
            settle settle_blocks settle_plain report_progress write_log
            pull_register pull_touch pull_stop pull_claim pull_unclaim pull_heartbeat pull_held pull_settle hand_over'),
          ('puller worker server', 'take extend finish fail snooze release'),
          ('keeper server',
           'tick promote lost_jobs reap pull_lost_jobs pull_reap expire unblock_all fold_tallies maintain_partitions prune prune_events
            retire retire_lanes
            summarize_times sample_activity seal_audit purge_deleted_tenants lead due_triggers next_due_ms fire_triggers
            pending_events event_triggers dispatch_events hold_event_back note_problem note_locked keeper_route'),
          ('server admin operator',
           'enqueue_as enqueue_as_many cancel_as cancel_many_as retry_as retry_many_as purge purge_subject purge_tenant
            record_audit record_audits verify_audit
            create_token tokens_of revoke_token rotate_token heads_of verify_checkpoint shown_definition
            create_trigger update_trigger delete_trigger run_trigger retry_dispatch set_retention retention_progress place_hold release_hold
            ensure_tenant set_paused set_draining'),
          ('server', 'find_token find_user find_session find_invitation find_password_reset'), -- before the caller is known
          ('server admin',
           'remember_request answer_request lock_member set_member_role members_of remove_member
            create_invitation invitations_of revoke_invitation accept_invitation accept_invitation_as_new
            change_password create_password_reset password_resets_of revoke_password_reset reset_password lock_link_creator
            create_session choose_tenant end_session'),
          ('admin operator', 'create_definition change_definition create_tenant change_tenant mark_tenant_deleting shown_tenant')
        ) g (roles, functions)
        cross join lateral regexp_split_to_table(g.roles, '[[:space:]]+') r (role)
        cross join lateral regexp_split_to_table(g.functions, '[[:space:]]+') f (function)),
    found as (
      select p.proname::text as function, p.oid::regprocedure::text as signature, coalesce(r.rolname::text, 'public') as role
        from pg_proc p
        cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) g
        left join pg_roles r on r.oid = g.grantee
       where p.pronamespace = 'windlass'::regnamespace and g.grantee <> p.proowner
         and (g.grantee = 0 or windlass.is_role_of_ours(r.rolname)))
    select format('revoke all on function %s from %s', f.signature, f.role) as statement
      from found f where not exists (select from wanted w where w.function = f.function and w.role = f.role)
    union all
    select format('grant execute on function windlass.%I to %I', w.function, w.role)
      from wanted w where not exists (select from found f where f.function = w.function and f.role = w.role)
  loop
    execute change.statement;
  end loop;
end
$$;
