-- The whole queue in words, for the model to compare. Written for two tenants ($1) and ticks of an hour.
with name as (
  select b.tenant_id, b.id, 2 * (('x' || right(b.id::text, 8))::bit(32)::integer - 1) + array_position($1::uuid[], b.tenant_id) - 1 as job,
         b.lane, b.ordering_key
    from windlass.job b),
place as (
  select l.tenant_id, r.job_id, l.attempt, format('%s/%s/%s', l.failures, l.lost, l.snoozes) as counted, l.holds_dedupe as holds,
         format('running by %s token=%s canceled=%s', w.worker_id, ('x' || right(l.token::text, 8))::bit(32)::integer,
                (l.cancel_requested_at[r.at_position + 1] is not null)::text) as said
    from windlass.live l cross join lateral windlass.running_of(l.ids, l.ended) r left join windlass.job_workers w on w.id = l.worker
  union all
  select s.tenant_id, s.job_id, s.attempt, format('%s/%s/%s', s.failures, s.lost, s.snoozes), s.holds_dedupe, 'queued'
    from windlass.queued s
  union all
  select d.tenant_id, d.job_id, d.attempt, format('%s/%s/%s', d.failures, d.lost, d.snoozes), d.holds_dedupe,
         format('scheduled in %s', ceil(extract(epoch from d.due_at - clock_timestamp()) / 3600)) from windlass.deferred d
  union all
  select k.tenant_id, k.job_id, windlass.last_attempt(k.tenant_id, k.job_id), '0/0/0', k.holds_dedupe, 'blocked' from windlass.blocked k
  union all
  select h.tenant_id, h.job_id, windlass.last_attempt(h.tenant_id, h.job_id), '0/0/0', false,
         format('%s by %s reason=%s', windlass.state_name(h.job_status), h.attempt, coalesce(h.reason, 'none'))
    from windlass.history h where h.job_status is not null)
-- A job in two places is two lines here, and a job in none is a line without a place.
select format('job %s %s attempt=%s counted=%s holds=%s ended=[%s]', n.job, p.said, p.attempt, p.counted, p.holds::text,
         (select string_agg(windlass.outcome_name(h.outcome), ',' order by h.attempt) from windlass.history h
           where h.tenant_id = n.tenant_id and h.job_id = n.id and h.attempt > 0)) as line
  from name n left join place p on p.tenant_id = n.tenant_id and p.job_id = n.id
union all
select format('lane %s: %s', array_position($3::integer[], l.lane) - 1, string_agg(n.job::text, ' ' order by l.position))
  from windlass.queued l join name n on n.tenant_id = l.tenant_id and n.id = l.job_id group by l.lane
union all
select format('dedupe %s of %s: %s for %s active=%s', d.dedupe_key, array_position($1, d.tenant_id) - 1,
         2 * (('x' || right(d.job_id::text, 8))::bit(32)::integer - 1) + array_position($1, d.tenant_id) - 1,
         case when d.until = 'infinity' then 'ever' else ceil(extract(epoch from d.until - clock_timestamp()) / 3600)::text end,
         d.released_at_end::text)
  from windlass.dedupe d
union all
select format('expiry of %s in %s unstarted=%s', n.job, ceil(extract(epoch from e.expires_at - clock_timestamp()) / 3600),
         e.only_unstarted::text)
  from windlass.expiry e left join name n on n.tenant_id = e.tenant_id and n.id = e.job_id
union all
select format('worker %s %s', w.worker_id, case when w.stopped_at is not null then 'Closed'
         when w.lease_expires_at <= clock_timestamp() then 'Overdue' else 'Valid' end)
  from windlass.job_workers w where w.id = any ($2::integer[])
union all
select format('count %s of %s: %s %s', d.key, array_position($1, c.tenant_id) - 1, s.n, s.state)
  from windlass.job_counts c join windlass.job_definitions d on d.id = c.definition_id
  cross join lateral (values ('queued', c.queued), ('running', c.running), ('scheduled', c.scheduled), ('blocked', c.blocked),
    ('succeeded', c.succeeded), ('failed', c.failed), ('dead_letter', c.dead_letter), ('canceled', c.canceled)) s (state, n)
 where s.n <> 0;
