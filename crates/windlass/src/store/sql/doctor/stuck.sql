-- Work that is overdue, one row per kind: duties of the keeper, and queued jobs that no live worker has a handler for.
-- Reads counters and small tables, the oldest part of history for retention, and no body. Counters may be out of range: the
-- doctor reports that. unknown run: a live worker last reported how many jobs it has, and holds more that it claimed at
-- least a lease before that. prune: rules that should have been applied hours ago, if none was for an hour. retention:
-- rules that are applied and fall behind.
with progress as materialized (
  select p.definition_key, p.status, p.keep_seconds, p.due, p.behind_seconds, max(p.checked_at) over () as last_look
    from windlass.retention_progress() p)
select 'promote' as kind, '' as name, count(*) as jobs, coalesce(extract(epoch from clock_timestamp() - min(d.due_at))::bigint,
       0) as age_seconds
  from windlass.deferred d where d.due_at < clock_timestamp() - interval '30 s'
having count(*) > 0
union all
select 'expire', '', count(*), extract(epoch from clock_timestamp() - min(e.expires_at))::bigint
  from windlass.expiry e where e.expires_at < clock_timestamp() - interval '60 s'
having count(*) > 0
union all
select 'fold', '', count(*), 0 from windlass.tally having count(*) > 100000
union all
select 'reap', w.worker_id, w.running_count, extract(epoch from clock_timestamp() - w.lease_expires_at)::bigint
  from windlass.job_workers w
 where w.stopped_at is null and w.running_count > 0 and w.lease_expires_at < clock_timestamp() - interval '60 s'
union all
select 'unblock', '', count(*), extract(epoch from clock_timestamp() - min(u.since))::bigint
  from windlass.unblock_due u where u.since < clock_timestamp() - interval '60 s'
having count(*) > 0
union all
select 'unknown run', w.worker_id, sum(cardinality(l.ids) - bit_count(l.ended::bit(64)))::bigint - w.running_count,
       extract(epoch from clock_timestamp() - min(l.claimed_at))::bigint
  from windlass.job_workers w
  join windlass.live l on l.worker = w.id and l.claimed_at < w.last_seen_at - w.lease_seconds * interval '1 s'
 where w.stopped_at is null and w.lease_expires_at > clock_timestamp()
   and not exists (select from windlass.pull_lease r where r.tenant_id = l.tenant_id and r.job_id = l.job_id)
 group by w.id, w.worker_id, w.running_count
having sum(cardinality(l.ids) - bit_count(l.ended::bit(64))) > w.running_count
union all
select 'tenant', t.slug || ': ' || t.purge_blocked, 0, extract(epoch from clock_timestamp() - t.updated_at)::bigint
  from windlass.tenants t where t.status = 'deleting' and t.purge_blocked is not null
union all
select 'unknown key', d.key, least(sum(c.queued), 9223372036854775807)::bigint, 0
  from windlass.job_counts c join windlass.job_definitions d on d.id = c.definition_id
 where not exists (select from windlass.job_workers w where w.lease_expires_at > clock_timestamp() and d.key = any (w.definition_keys))
 group by d.key
having sum(c.queued) > 0
union all
select 'paused', q.name, least(coalesce((select sum(c.queued) from windlass.job_counts c where c.queue = q.name), 0),
       9223372036854775807)::bigint, extract(epoch from clock_timestamp() - q.updated_at)::bigint
  from windlass.queues q where q.is_paused
union all
select 'prune', '', count(*), extract(epoch from clock_timestamp() - max(p.last_look))::bigint
  from progress p where p.behind_seconds > 7200 and p.last_look < clock_timestamp() - interval '1 hour'
having count(*) > 0
union all
select 'retention', p.definition_key || ' ' || p.status, p.due, p.behind_seconds
  from progress p
 where p.behind_seconds > greatest(3600, least(p.keep_seconds / 10, 86400)) and p.last_look >= clock_timestamp() - interval '1 hour'
union all
select 'partition', to_char(d.day, 'YYYY-MM-DD'), 0, 0
  from (select date_trunc('day', now() at time zone 'UTC') + interval '1 day' as day) d
 where to_regclass('windlass.job_' || to_char(d.day, 'YYYYMMDD')) is null
 order by 1, 2
