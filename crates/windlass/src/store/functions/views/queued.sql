-- Queued jobs, one row each: jobs from their first row of the line, found by their bodies, and jobs that were queued
-- again. `position` is the job's position, in the order in which its lane is claimed.
select windlass.keep_view('queued', $view$
select b.tenant_id, b.id as job_id, l.lane, l.seq + coalesce(l.offsets[array_position(l.ids, b.id)],
       l.taken + array_position(l.ids, b.id) - 1) as position, l.attempt, l.failures, l.lost, l.snoozes, l.max_attempts, l.holds_dedupe
  from windlass.job b join windlass.line l on l.lane = b.lane and l.seq = b.line_seq and l.tenant_id = b.tenant_id
 where b.id = any (l.ids)
union all
select l.tenant_id, l.job_id, l.lane, l.seq, l.attempt, l.failures, l.lost, l.snoozes, l.max_attempts, l.holds_dedupe
  from windlass.line l where l.job_id is not null$view$);
