-- What the attempts of one job have in common. A function, because in the view the subquery was planned for every partition of history,
-- also when one job is read by its id: with 700 partitions that was 2,800 relations. Called once for a row, and not at all by a query
-- that reads none of its columns.
create or replace function windlass.attempts_of(
  tenant uuid, job uuid, out attempts integer, out first_started_at timestamptz, out last_started_at timestamptz, out last_error text)
language plpgsql stable parallel safe
set plan_cache_mode = force_custom_plan
set jit = off
as $$
#variable_conflict use_column
begin
  select max(h.attempt), min(h.started_at), max(h.started_at),
         (array_agg(h.error_text order by h.attempt desc) filter (where h.error_text is not null))[1]
    into attempts, first_started_at, last_started_at, last_error
    from windlass.history h where h.tenant_id = tenant and h.job_id = job and h.attempt > 0;
end
$$;

-- The views for readers: one row per job, with its current status. security_invoker, so that the row-level security of
-- the tables applies to the reader.
select windlass.keep_view('jobs', $view$
select b.id, b.tenant_id, n.definition_id, windlass.source_name(b.source) as source, b.source_ref,
       case when l.attempt is not null then 'running'
            when q.attempt is not null then 'queued'
            when d.job_id is not null then 'scheduled'
            when k.job_id is not null then 'blocked'
            else windlass.state_name(f.job_status) end as status,
       n.priority::integer as priority, windlass.readable(b.payload) as payload, b.dedupe_key, b.correlation_id,
       windlass.shown_instant(coalesce(d.due_at, b.scheduled_for, b.created_at)) as scheduled_for,
       b.created_at as queued_at,
       coalesce((a.got).first_started_at, l.claimed_at) as started_at,
       f.finished_at,
       coalesce(l.attempt, q.attempt, d.attempt, (a.got).attempts, 0) as attempt_count,
       b.max_attempts::integer as max_attempts,
       coalesce(r.expires_at, w.lease_expires_at) as lease_expires_at, coalesce(w.worker_id, fw.worker_id) as claimed_by_worker,
       case when f.job_status is distinct from windlass.state_code('succeeded') then (a.got).last_error end as last_error,
       b.created_by,
       n.queue, j.key as definition_key, f.result, f.artifact, p.percent as progress_percent, p.message as progress_message,
       b.subject_type, b.subject_id, b.tags, b.trace, b.parent_id, b.ordering_key, windlass.shown_instant(b.deadline) as deadline,
       l.cancel_requested_at, coalesce(l.claimed_at, (a.got).last_started_at) as last_started_at, f.reason
  from windlass.job b
  join windlass.lane n on n.tenant_id = b.tenant_id and n.id = b.lane
  join windlass.job_definitions j on j.id = n.definition_id
  left join lateral (
    select i.attempt, i.worker, i.claimed_at, i.cancel_requested_at[array_position(i.ids, b.id)] as cancel_requested_at
      from windlass.live i
     where i.tenant_id = b.tenant_id and i.lane = b.lane and i.seq > b.line_seq - 4096 and i.seq < b.line_seq + 64
       and i.job_id is null and b.id = any (i.ids) and (i.ended >> (array_position(i.ids, b.id) - 1)) & 1 = 0
    union all
    select i.attempt, i.worker, i.claimed_at, i.cancel_requested_at[1] from windlass.live i
     where i.tenant_id = b.tenant_id and i.job_id = b.id) l on true
  left join lateral (
    select i.attempt from windlass.line i
     where i.lane = b.lane and i.seq = b.line_seq and i.tenant_id = b.tenant_id and b.id = any (i.ids)
    union all
    select i.attempt from windlass.line i where i.tenant_id = b.tenant_id and i.job_id = b.id) q on true
  left join windlass.deferred d on d.tenant_id = b.tenant_id and d.job_id = b.id
  left join windlass.blocked k on k.tenant_id = b.tenant_id and k.job_id = b.id
  left join windlass.progress p on p.tenant_id = b.tenant_id and p.job_id = b.id
  left join windlass.job_workers w on w.id = l.worker
  left join windlass.pull_lease r on r.tenant_id = b.tenant_id and r.job_id = b.id and r.attempt = l.attempt and r.worker = l.worker
  left join lateral (
    select h.job_status, h.finished_at, h.result, h.artifact, h.worker, h.reason from windlass.history h
     where h.tenant_id = b.tenant_id and h.job_id = b.id and h.job_status is not null) f on true
  left join windlass.job_workers fw on fw.id = f.worker
  cross join lateral (select windlass.attempts_of(b.tenant_id, b.id) as got offset 0) a$view$);

-- One row per attempt, including running ones.
select windlass.keep_view('job_attempts', $view$
select h.tenant_id, h.job_id, h.attempt as attempt_no, coalesce(w.worker_id, h.worker::text) as worker_id, h.pid, h.started_at,
       h.finished_at, h.exit_code, windlass.outcome_name(h.outcome) as status, h.stdout_tail, h.stderr_tail, h.error_text, h.reason,
       md5(h.tenant_id::text || h.job_id || h.attempt)::uuid as id, h.signal, h.max_rss_kb,
       h.progress_percent, h.progress_message
  from windlass.history h left join windlass.job_workers w on w.id = h.worker
 where h.attempt > 0
union all
select l.tenant_id, l.job_id, l.attempt, w.worker_id, null, l.claimed_at, null, null, 'running', null, null, null, null,
       md5(l.tenant_id::text || l.job_id || l.attempt)::uuid, null, null, p.percent, p.message
  from windlass.running l join windlass.job_workers w on w.id = l.worker
  left join windlass.progress p on p.tenant_id = l.tenant_id and p.job_id = l.job_id and p.attempt = l.attempt$view$);

-- Jobs per tenant, queue, definition and status, exact: the totals plus the differences that are not folded yet.
-- purged: deleted jobs.
select windlass.keep_view('job_counts', $view$
select c.tenant_id, n.queue, n.definition_id, sum(c.queued) as queued, sum(c.running) as running, sum(c.scheduled) as scheduled,
       sum(c.blocked) as blocked, sum(c.succeeded) as succeeded, sum(c.failed) as failed, sum(c.dead_letter) as dead_letter,
       sum(c.canceled) as canceled, sum(c.purged) as purged
  from (select * from windlass.total union all select * from windlass.tally) c
  join windlass.lane n on n.tenant_id = c.tenant_id and n.id = c.lane
 group by c.tenant_id, n.queue, n.definition_id$view$);
