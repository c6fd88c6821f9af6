-- What must be true of every snapshot, whatever was done before: one row for each thing that is wrong.
with place as (
  select l.tenant_id, r.job_id, 'running' as state, l.holds_dedupe, l.attempt
    from windlass.live l cross join lateral windlass.running_of(l.ids, l.ended) r
  union all select s.tenant_id, s.job_id, 'queued', s.holds_dedupe, s.attempt from windlass.queued s
  union all select d.tenant_id, d.job_id, 'scheduled', d.holds_dedupe, d.attempt from windlass.deferred d
  union all select k.tenant_id, k.job_id, 'blocked', k.holds_dedupe, null from windlass.blocked k
  union all select h.tenant_id, h.job_id, windlass.state_name(h.job_status), false, null
    from windlass.history h where h.job_status is not null)
select format('job %s is in %s places: %s', b.id, count(p.job_id), string_agg(p.state, ', ')) as wrong
  from windlass.job b left join place p on p.tenant_id = b.tenant_id and p.job_id = b.id
 group by b.tenant_id, b.id having count(p.job_id) <> 1
union all
select format('%s of no job: %s', t.kind, t.job_id)
  from (select p.state as kind, p.tenant_id, p.job_id from place p
        union all select 'history', tenant_id, job_id from windlass.history
        union all select 'expiry', tenant_id, job_id from windlass.expiry
        union all select 'progress', tenant_id, job_id from windlass.progress
        union all select 'cancel request', tenant_id, job_id from windlass.cancel_request) t
 where not exists (select from windlass.job b where b.tenant_id = t.tenant_id and b.id = t.job_id)
union all
-- Whoever stands in a row of the line is found there, by its body or by its own id, and no row is empty.
select format('%s of the %s jobs of line row %s are found there', count(s.job_id), max(cardinality(l.ids)), l.seq)
  from windlass.line l left join lateral (select s.job_id from windlass.queued s
    where s.tenant_id = l.tenant_id and s.job_id = any (l.ids) and s.lane = l.lane and s.position between l.seq and l.seq + 63) s on true
 group by l.lane, l.seq, l.tenant_id having count(s.job_id) <> max(cardinality(l.ids)) or count(s.job_id) = 0
union all
-- Whoever runs in a block is found there, by its body or by its own id. No block is over, and no bit is set without a job.
select format('%s of the %s running jobs of block %s are found there', count(s.job_id), windlass.running_in(l.ids, l.ended), l.seq)
  from windlass.live l left join lateral (select s.job_id from windlass.running s
    where s.tenant_id = l.tenant_id and s.job_id = any (l.ids) and s.lane = l.lane and s.seq = l.seq) s on true
 group by l.lane, l.seq, l.tenant_id
having count(s.job_id) <> windlass.running_in(l.ids, l.ended) or count(s.job_id) = 0 or l.ended & ~windlass.all_bits(l.ids) <> 0
union all
-- Every attempt but the current one has ended exactly once, and none is left out.
select format('job %s ended %s of its attempts, the last was %s', p.job_id, h.ended, h.last)
  from place p
  cross join lateral (select count(*) as ended, coalesce(max(h.attempt), 0) as last from windlass.history h
                       where h.tenant_id = p.tenant_id and h.job_id = p.job_id and h.attempt > 0) h
 where h.ended <> h.last or h.last <> coalesce(case when p.state = 'running' then p.attempt - 1 else p.attempt end, h.last)
union all
select format('cancel request without its run: %s', c.job_id) from windlass.cancel_request c
 where not exists (select from windlass.running l where l.tenant_id = c.tenant_id and l.job_id = c.job_id
                     and l.attempt = c.attempt and l.worker = c.worker and l.cancel_requested_at is not null)
union all
select format('job %s runs by worker %s, which is closed', l.job_id, l.worker)
  from windlass.running l join windlass.job_workers w on w.id = l.worker where w.stopped_at is not null
union all
select format('token %s is of two claims', l.token) from windlass.live l
 group by l.token having count(distinct (l.worker, l.claimed_at)) > 1
union all
select format('%s jobs of ordering key %s at once', count(*), b.ordering_key)
  from windlass.job b join place p on p.tenant_id = b.tenant_id and p.job_id = b.id
 where b.ordering_key is not null and p.state in ('queued', 'running', 'scheduled')
 group by b.tenant_id, b.ordering_key having count(*) > 1
union all
select format('job %s waits for itself', c.job_id)
  from (with recursive path (tenant_id, job_id, needs_job_id) as (
          select d.tenant_id, d.job_id, d.needs_job_id from windlass.dependency d
          union
          select p.tenant_id, p.job_id, d.needs_job_id
            from path p join windlass.dependency d on d.tenant_id = p.tenant_id and d.job_id = p.needs_job_id)
        select p.job_id from path p where p.job_id = p.needs_job_id) c
union all
select format('worker %s is closed and waits', w.worker)
  from windlass.waiting w join windlass.job_workers j on j.id = w.worker where j.stopped_at is not null
union all
select format('job %s says it holds its dedupe key and does not', p.job_id) from place p
 where p.holds_dedupe and not exists (select from windlass.dedupe d
   where d.tenant_id = p.tenant_id and d.job_id = p.job_id and d.released_at_end)
union all
select format('dedupe key %s is held by job %s, which does not know', d.dedupe_key, d.job_id) from windlass.dedupe d
 where d.released_at_end and not exists (select from place p
   where p.tenant_id = d.tenant_id and p.job_id = d.job_id and p.holds_dedupe)
union all
select format('job_counts says %s %s, there are %s', coalesce(c.n, 0), coalesce(c.state, s.state), coalesce(s.n, 0))
  from (select c.tenant_id, c.definition_id, v.state, sum(v.n) as n from windlass.job_counts c
         cross join lateral (values ('queued', c.queued), ('running', c.running), ('scheduled', c.scheduled), ('blocked', c.blocked),
           ('succeeded', c.succeeded), ('failed', c.failed), ('dead_letter', c.dead_letter), ('canceled', c.canceled)) v (state, n)
         group by 1, 2, 3) c
  full join (select j.tenant_id, j.definition_id, j.status as state, count(*) as n from windlass.jobs j group by 1, 2, 3) s
    on s.tenant_id = c.tenant_id and s.definition_id = c.definition_id and s.state = c.state
 where coalesce(c.n, 0) <> coalesce(s.n, 0);
