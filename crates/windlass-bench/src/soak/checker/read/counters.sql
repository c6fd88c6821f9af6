-- Each counter beside the number of rows that it counts.
with counted as (
  select coalesce(sum(queued), 0) as queued, coalesce(sum(running), 0) as running, coalesce(sum(scheduled), 0) as scheduled,
         coalesce(sum(blocked), 0) as blocked, coalesce(sum(succeeded), 0) as succeeded, coalesce(sum(failed), 0) as failed,
         coalesce(sum(dead_letter), 0) as dead_letter, coalesce(sum(canceled), 0) as canceled
    from (select * from windlass.total union all select * from windlass.tally) c),
found as (
  select (select coalesce(sum(cardinality(ids)), 0) from windlass.line) as queued,
         (select coalesce(sum(cardinality(ids) - bit_count(ended::bit(64))), 0) from windlass.live) as running,
         (select count(*) from windlass.deferred) as scheduled, (select count(*) from windlass.blocked) as blocked,
         count(*) filter (where job_status = 1) as succeeded, count(*) filter (where job_status = 2) as failed,
         count(*) filter (where job_status = 3) as dead_letter, count(*) filter (where job_status = 4) as canceled
    from windlass.history)
select v.name, v.counter::bigint, v.rows::bigint
  from counted c, found f,
       lateral (values ('queued', c.queued, f.queued), ('running', c.running, f.running), ('scheduled', c.scheduled, f.scheduled),
         ('blocked', c.blocked, f.blocked), ('succeeded', c.succeeded, f.succeeded), ('failed', c.failed, f.failed),
         ('dead_letter', c.dead_letter, f.dead_letter), ('canceled', c.canceled, f.canceled)) v (name, counter, rows)
