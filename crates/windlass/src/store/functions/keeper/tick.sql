-- The keeper's work in SQL, for an installation without a process of ours: a scheduler of the database, such as pg_cron, calls it every
-- few seconds. Runs each duty once, in random order so that a backlog of one does not starve the others, and then those that have
-- more to do, until the budget is used. Each batch is as large as a keeper's. Returns what each duty did, in the order of its first run.
-- One call at a time: a second one returns no row. Keepers may run meanwhile.
--
-- A failed duty is rolled back and reported in `note`, and does not stop the others. Schedules and events are not processed:
-- their instants, templates and conditions are decided in Rust, so a keeper has to run for them (decision 0025). `note` says how
-- many wait for one.
-- Lock order: every duty skips what others have locked or waits 200 ms for it. All locks last until the end of the call. The duties of
-- partitions lock whole tables, so a call that has changed rows does not run them, and one in which they changed something runs no
-- others: an application that waits for such a row would hold one of those tables. Which of them come first is random.
create or replace function windlass.tick(budget interval default '1 s')
returns table (duty text, moved integer, has_more boolean, ms integer, note text)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '200ms'
as $$
#variable_conflict use_column
declare
  ends_at timestamptz;
  began timestamptz;
  of_rows constant text[] := array['promote', 'reap', 'unblock', 'expire', 'fold', 'prune', 'seal', 'purge_tenants', 'sample'];
  of_tables constant text[] := array['partition', 'retire'];
  names text[] := array(select n from unnest(of_rows) n order by random());
  -- What each duty did, at its position in `names`.
  counts integer[] := array_fill(0, array[cardinality(of_rows || of_tables)]);
  spent integer[] := counts;
  more boolean[] := array_fill(true, array[cardinality(counts)]);
  left_out boolean[] := array_fill(false, array[cardinality(counts)]);
  notes text[] := array_fill(null::text, array[cardinality(counts)]);
  has_moved_rows boolean := false;
  has_locked_tables boolean := false;
  round record;
  is_first boolean := true;
begin
  perform windlass.check_read_committed();
  if coalesce(tick.budget not between interval '0' and interval '1 minute', true) then
    raise exception 'budget must be between 0 and 1 minute' using errcode = 'WL007', column = 'budget';
  end if;
  ends_at := clock_timestamp() + tick.budget;
  if not windlass.try_lock_gate('00000000-0000-0000-0000-000000000000', 'tick', true) then
    return;
  end if;
  names := case when random() < 0.5 then of_tables || names else names || of_tables end;
  loop
    for i in 1 .. cardinality(names) loop
      continue when not more[i] or not is_first and clock_timestamp() >= ends_at;
      if (case when names[i] = any (of_tables) then has_moved_rows else has_locked_tables end) then
        more[i] := false;
        left_out[i] := true;
        continue;
      end if;
      began := clock_timestamp();
      begin
        select d.moved, d.has_more into round from windlass.run_duty(names[i]) d;
        counts[i] := counts[i] + coalesce(round.moved, 0);
        more[i] := coalesce(round.has_more, false) and names[i] <> all (of_tables);
        if names[i] = any (of_tables) then
          has_locked_tables := has_locked_tables or round.moved > 0;
        else
          has_moved_rows := has_moved_rows or round.moved > 0;
        end if;
      exception when others then
        perform windlass.raise_server_problem(sqlstate, sqlerrm);
        notes[i] := left(format('%s: %s', sqlstate, sqlerrm), 500);
        more[i] := false;
      end;
      spent[i] := spent[i] + (extract(epoch from clock_timestamp() - began) * 1000)::integer;
    end loop;
    is_first := false;
    exit when true <> all (more) or clock_timestamp() >= ends_at;
  end loop;
  return query
    select u.name, u.n, u.has_more or u.is_left_out, u.ms, u.note
      from unnest(names, counts, more, left_out, spent, notes) u (name, n, has_more, is_left_out, ms, note)
    union all
    select w.name, 0, w.n > 0, 0, case when w.n > 0 then format('%s due; only a keeper can process them', w.n) end
      from (values
        ('schedule', (select count(*) from (select from windlass.job_triggers t where t.next_due_at <= clock_timestamp() limit 1000) t)),
        ('dispatch', (select count(*) from (select from windlass.event_pending limit 1000) e))) w (name, n);
end
$$;

-- One round of a duty, as a keeper runs it: neither passes the size of a batch, which is a default of the duty's function.
create or replace function windlass.run_duty(duty text, out moved integer, out has_more boolean)
language plpgsql
as $$
#variable_conflict use_column
begin
  case duty
    when 'promote' then
      select d.promoted, d.has_more into moved, has_more from windlass.promote() d;
    when 'reap' then
      moved := windlass.reap_lost();
      has_more := moved > 0;
    when 'unblock' then
      select d.decided, d.decided > 0 into moved, has_more from windlass.unblock_all() d;
    when 'expire' then
      select d.processed, d.has_more into moved, has_more from windlass.expire() d;
    when 'fold' then
      select d.moved, d.has_more into moved, has_more from windlass.fold_tallies() d;
    when 'prune' then
      perform windlass.summarize_times();
      select d.moved, d.has_more into moved, has_more from windlass.prune() d;
      select run_duty.moved + d.moved, run_duty.has_more or d.has_more into moved, has_more from windlass.prune_events() d;
      perform windlass.retire_lanes();
    when 'seal' then
      select d.moved, d.has_more into moved, has_more from windlass.seal_audit() d;
    when 'purge_tenants' then
      moved := greatest(windlass.purge_deleted_tenants(), 0);
      has_more := moved > 0;
    when 'sample' then
      moved := windlass.sample_activity();
    when 'partition' then
      select d.made + d.dropped into moved from windlass.maintain_partitions() d;
    when 'retire' then
      select least(d.gone, 2147483647)::integer into moved from windlass.retire() d;
  end case;
end
$$;

-- Recovers jobs whose lease has expired, as keeper/reap.rs does, by the twin of its rule (see settlement). Returns how many.
-- A job whose definition does not exist ends by the default policies.
create or replace function windlass.reap_lost() returns integer
language plpgsql
as $$
#variable_conflict use_column
declare
  lost record;
  reaped integer := 0;
begin
  select array_agg(l.tenant_id) as tenants, array_agg(l.job_id) as jobs, array_agg(l.attempt) as attempts, array_agg(l.token) as tokens,
         array_agg(windlass.lost_detail(case when l.is_timed_out then 'timeout' else 'lost' end, l.failures, l.lost, l.snoozes,
           l.max_attempts, l.definition_key, l.cancel_requested, l.deadline_ms)) as details
    into lost from windlass.pull_lost_jobs() l;
  if lost.jobs is not null then
    select reaped + coalesce(cardinality(r.settled), 0) into reaped
      from windlass.pull_reap(lost.tenants, lost.jobs, lost.attempts, lost.tokens, lost.details) r;
  end if;
  select array_agg(distinct l.worker) as workers, array_agg(l.tenant_id order by l.tenant_id, l.job_id) as tenants,
         array_agg(l.job_id order by l.tenant_id, l.job_id) as jobs, array_agg(l.attempt order by l.tenant_id, l.job_id) as attempts,
         array_agg(l.token order by l.tenant_id, l.job_id) as tokens,
         array_agg(windlass.lost_detail('lost', l.failures, l.lost, l.snoozes, l.max_attempts, l.definition_key, l.cancel_requested,
           l.deadline_ms) order by l.tenant_id, l.job_id) as details
    into lost from windlass.lost_jobs() l;
  if lost.jobs is not null then
    select reaped + coalesce(cardinality(r.settled), 0) into reaped
      from windlass.reap(lost.workers, lost.tenants, lost.jobs, lost.attempts, lost.tokens, lost.details) r;
  end if;
  return reaped;
end
$$;

create or replace function windlass.lost_detail(ended text, failures smallint, lost smallint, snoozes smallint, max_attempts smallint,
  definition_key text, is_canceled boolean, remaining_ms bigint) returns jsonb
language sql volatile
as $$
  select windlass.settlement(ended, null, null, failures, lost, snoozes, max_attempts,
           coalesce(d.max_lost, (p.policies ->> 'max_lost')::smallint), coalesce(d.max_snoozes, (p.policies ->> 'max_snoozes')::smallint),
           d.backoff, coalesce(d.on_timeout, p.policies ->> 'on_timeout'), coalesce(d.on_lost, p.policies ->> 'on_lost'), is_canceled,
           remaining_ms, random())
         || jsonb_build_object('error', case ended when 'timeout' then 'the attempt ran past its timeout'
              else 'the worker''s lease expired' end)
    from (values (windlass.default_policies())) p (policies) left join windlass.job_definitions d on d.key = definition_key
$$;
