-- Every queue that a definition or a lane in use names, and those that were ever paused.
select n.name, coalesce(q.is_paused, false)
  from (select d.queue as name from windlass.job_definitions d union select l.queue from windlass.lane l where l.retired_at is null union select p.name from windlass.queues p) n
  left join windlass.queues q on q.name = n.name
 order by n.name
