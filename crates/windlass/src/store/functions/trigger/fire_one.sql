-- Fires one instant of a trigger whose row the caller has locked, according to the overlap policy. Returns the outcome,
-- or null if the instant was fired before. If the enqueue is refused (the tenant is suspended, the definition does not
-- exist), the instant is skipped with the message as its reason: it must not block the rest of a batch. Overlap is
-- decided here, and misfire in Rust (model/trigger/plan.rs): misfire depends only on the instant and the clock, overlap
-- on which earlier jobs have not ended. Only this transaction, under the trigger's lock, can read that and act on it
-- atomically. Decided earlier, `skip` could let two jobs run, or omit an instant whose earlier job has just ended. A
-- backfill does not wait for earlier jobs, but its jobs run one after another unless the policy is `allow`.
create or replace function windlass.fire_one(
  tenant uuid, trigger uuid, of_generation integer, of_kind text, due timestamptz, job uuid, key text, payload jsonb,
  delay double precision, out outcome text, out reason text, out job_id uuid)
language plpgsql
as $$
#variable_conflict use_column
declare
  policy text := (select t.overlap from windlass.job_triggers t where t.tenant_id = tenant and t.id = trigger);
  held record;
  waits_for uuid[] := '{}';
begin
  for try in 1 .. 3 loop
    begin
      reason := null;
      waits_for := '{}';
      if policy <> 'allow' then
        update windlass.fire f set is_open = false
         where f.tenant_id = tenant and f.trigger_id = trigger and f.is_open
           and coalesce(windlass.state_of(tenant, f.job_id), 'purged') in ('succeeded', 'failed', 'dead_letter', 'canceled', 'purged');
      end if;
      if policy = 'cancel_running' and of_kind <> 'backfill' then
        -- All of them first, in the order of every cancel.
        perform windlass.lock_jobs(tenant, array(
          select f.job_id from windlass.fire f where f.tenant_id = tenant and f.trigger_id = trigger and f.is_open), 1000);
      end if;
      if policy <> 'allow' and of_kind <> 'backfill' then
        for held in
          select f.job_id, windlass.state_of(tenant, f.job_id) as state from windlass.fire f
           where f.tenant_id = tenant and f.trigger_id = trigger and f.is_open
        loop
          if policy = 'skip' or (policy = 'queue_one' and held.state <> 'running') then
            reason := 'overlap';
          elsif policy = 'queue_one' then
            waits_for := waits_for || held.job_id;
          elsif windlass.cancel_result(windlass.cancel_unaudited(tenant, held.job_id)) = 'requested' then
            waits_for := waits_for || held.job_id;
          end if;
        end loop;
      end if;
      if reason is null then
        insert into windlass.fire as f (tenant_id, trigger_id, due_at, generation, kind, outcome, job_id, jitter_seconds, is_open)
          values (tenant, trigger, due, of_generation, of_kind, 'fired', job, delay, policy <> 'allow')
          on conflict (tenant_id, trigger_id, due_at, generation) do update
            set kind = excluded.kind, outcome = 'fired', reason = null, job_id = excluded.job_id, jitter_seconds = excluded.jitter_seconds,
                is_open = excluded.is_open, decided_at = excluded.decided_at
            where f.outcome = 'skipped' and excluded.kind = 'backfill';
        if found then
          perform windlass.enqueue(key, payload, tenant, source => case of_kind when 'manual' then 'manual' else 'schedule' end,
            source_ref => trigger::text, job_id => job, delay => case when delay > 0 then make_interval(secs => delay) end,
            depends_on => waits_for, if_unmet => case when waits_for <> '{}' or of_kind = 'backfill' then 'run' end,
            ordering_key => case when of_kind = 'backfill' and policy <> 'allow' then 'backfill ' || trigger end);
          outcome := 'fired';
          job_id := job;
        end if;
        return;
      end if;
    exception when others then
      -- A job that it should wait for was purged meanwhile: read again which of them are left.
      continue when sqlstate = 'WL008' and waits_for <> '{}' and try < 3;
      -- The SQLSTATE class distinguishes a refusal from a failure: the caller retries after a deadlock or a full disk.
      if sqlstate !~ '^(WL|22|23)' then
        raise;
      end if;
      reason := left(sqlerrm, 500);
    end;
    exit;
  end loop;
  insert into windlass.fire (tenant_id, trigger_id, due_at, generation, kind, outcome, reason)
    values (tenant, trigger, due, of_generation, of_kind, 'skipped', fire_one.reason)
    on conflict do nothing;
  outcome := 'skipped';
end
$$;

-- Fires instants that an operator requested: now (dues is null), or a past range that was not fired in any generation.
-- Returns one row per instant; no rows if the trigger does not exist or was edited meanwhile. Needs read committed: the
-- trigger's row is locked and not written, so a fixed snapshot would miss the job of a call that came before. The row of the
-- audit trail contains the outcome of one run, or the range of the instants and the jobs; it is not written if no instant was left.
create or replace function windlass.run_trigger(
  tenant uuid, trigger uuid, seen integer, dues timestamptz[], jobs uuid[], key text, payloads jsonb[])
returns table (due_at timestamptz, outcome text, reason text, job_id uuid)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  item record;
  made record;
  is_now boolean := dues is null;
  outcomes jsonb := '[]';
begin
  if not (windlass.is_list(dues) and windlass.is_list(jobs) and windlass.is_list(payloads)) then
    perform windlass.raise_array();
  elsif cardinality(jobs) > 1000 then -- so that the row of the audit trail names each of them
    raise exception 'jobs must have at most 1000 elements' using errcode = 'WL007', column = 'jobs';
  end if;
  perform windlass.check_read_committed();
  perform windlass.tenant_for(tenant);
  perform windlass.stay_durable();
  perform from windlass.job_triggers t
    where t.tenant_id = tenant and t.id = trigger and t.generation = seen and t.deleted_at is null for no key update;
  if not found then
    return;
  end if;
  perform windlass.lock_quota(tenant); -- before the live row of a job that it cancels, as in a settlement
  for item in
    select coalesce(n.due, clock_timestamp()) as due, n.job, n.payload from unnest(dues, jobs, payloads) n (due, job, payload)
     where is_now or not exists (select from windlass.fire f where f.tenant_id = tenant and f.trigger_id = trigger and f.due_at = n.due
                                   and f.outcome = 'fired')
     order by 1
  loop
    select f.* into made from windlass.fire_one(tenant, trigger, seen, case when is_now then 'manual' else 'backfill' end,
      item.due, item.job, run_trigger.key, item.payload, 0) f;
    if made.outcome is not null then
      outcomes := outcomes
        || jsonb_build_object('due_at', item.due, 'outcome', made.outcome, 'reason', made.reason, 'job_id', made.job_id);
      return query select item.due, made.outcome, made.reason, made.job_id;
    end if;
  end loop;
  if is_now and jsonb_array_length(outcomes) = 1 then
    perform windlass.record_act(tenant, 'trigger.run', trigger::text, null, outcomes -> 0);
  elsif outcomes <> '[]' then
    perform windlass.record_act(tenant, case when is_now then 'trigger.run' else 'trigger.backfill' end, trigger::text, null,
      jsonb_build_object('from', outcomes -> 0 -> 'due_at', 'until', outcomes -> -1 -> 'due_at', 'instants', jsonb_array_length(outcomes),
        'ids', jsonb_path_query_array(outcomes, '$[*].job_id ? (@ != null)')));
  end if;
end
$$;
