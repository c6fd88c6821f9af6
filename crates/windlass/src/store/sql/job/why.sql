-- All facts that keep one job from running; why.rs has the rules. Numbers whose cost depends on the size of a backlog
-- are counted up to a thousand. The name of a tenant's worker ends with @ and the tenant's id; only workers of the
-- job's tenant and of the installation are listed, because no other worker runs the job.
-- Index: the primary keys of each table, line_by_job, dependency_by_job.
select windlass.state_of(b.tenant_id, b.id) as status, d.key as definition_key, d.is_active, n.queue,
       coalesce(q.is_paused, false) as queue_is_paused, t.status as tenant_status, t.weight,
       windlass.shown_instant(f.due_at) as due_at, clock_timestamp() as now, l.cancel_requested_at, w.worker_id, w.lease_expires_at,
         windlass.shown_instant(b.deadline) as deadline,
       coalesce(f.failures, l.failures, s.failures, 0::smallint) as failures, b.max_attempts,
       array(select p.needs_job_id from windlass.dependency p where p.tenant_id = b.tenant_id and p.job_id = b.id
              order by p.needs_job_id limit 20) as waits_for,
       array(select coalesce(windlass.state_of(b.tenant_id, p.needs_job_id), 'gone') from windlass.dependency p
              where p.tenant_id = b.tenant_id and p.job_id = b.id order by p.needs_job_id limit 20) as their_states,
       array(select k.worker_id from windlass.job_workers k where d.key = any (k.definition_keys)
                and (k.worker_id !~ '@[0-9a-f-]{36}$' or k.worker_id like '%@' || $1::text) and k.stopped_at is null
                and k.lease_expires_at > clock_timestamp() and not windlass.is_draining(k.id)
                and (k.queues = '{}' or n.queue = any (k.queues)) order by k.worker_id limit 20) as able_workers,
       array(select k.worker_id from windlass.job_workers k where d.key = any (k.definition_keys)
                and (k.worker_id !~ '@[0-9a-f-]{36}$' or k.worker_id like '%@' || $1::text) and k.stopped_at is null
                and k.lease_expires_at > clock_timestamp() and not windlass.is_draining(k.id)
                and not (k.queues = '{}' or n.queue = any (k.queues)) order by k.worker_id limit 20) as workers_of_other_queues,
       array(select k.worker_id from windlass.job_workers k where d.key = any (k.definition_keys)
                and (k.worker_id !~ '@[0-9a-f-]{36}$' or k.worker_id like '%@' || $1::text) and k.stopped_at is null
                and k.lease_expires_at > clock_timestamp() and windlass.is_draining(k.id) order by k.worker_id limit 20) as drained_workers,
       array(select k.worker_id from windlass.job_workers k where d.key = any (k.definition_keys)
                and (k.worker_id !~ '@[0-9a-f-]{36}$' or k.worker_id like '%@' || $1::text)
                and (k.stopped_at is not null or k.lease_expires_at <= clock_timestamp()) order by k.last_seen_at desc
                  limit 5) as gone_workers,
       (select least(coalesce(sum(o.jobs), 0), 1000)::bigint from (
          select case when o.offsets is null then least(cardinality(o.ids), s.position - o.seq - o.taken)
                      else (select count(*) from unnest(o.offsets) f where o.seq + f < s.position) end as jobs from windlass.line o
           where s.job_id is not null and o.lane = s.lane and o.seq <= s.position order by o.seq limit 1000) o) as ahead_in_lane,
       (select least(coalesce(sum(o.jobs), 0), 1000)::bigint from (
          select cardinality(o.ids) as jobs from windlass.lane m join windlass.line o on o.lane = m.id
           where s.job_id is not null and m.tenant_id = b.tenant_id and m.definition_id = n.definition_id
             and m.queue = n.queue and m.priority < n.priority limit 1000) o) as ahead_by_priority,
       windlass.limits_reached(n.id) as limits_reached, h.reason, h.finished_at
  from windlass.job b
  join windlass.lane n on n.tenant_id = b.tenant_id and n.id = b.lane
  join windlass.job_definitions d on d.id = n.definition_id
  join windlass.tenants t on t.id = b.tenant_id
  left join windlass.queues q on q.name = n.queue
  left join windlass.running l on l.tenant_id = $1 and l.job_id = $2
  left join windlass.queued s on s.tenant_id = $1 and s.job_id = $2
  left join windlass.deferred f on f.tenant_id = b.tenant_id and f.job_id = b.id
  left join windlass.job_workers w on w.id = l.worker
  left join windlass.history h on h.tenant_id = b.tenant_id and h.job_id = b.id and h.job_status is not null
 where b.tenant_id = $1 and b.id = $2
