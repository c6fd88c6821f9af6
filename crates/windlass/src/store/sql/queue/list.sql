-- Every queue of a definition or of a lane that is not retired, and those that were ever paused.
select n.name, coalesce(q.is_paused, false)
  from (select d.queue as name from windlass.job_definitions d union select l.queue from windlass.lane l where l.retired_at is null
    union select p.name from windlass.queues p) n
  left join windlass.queues q on q.name = n.name
 order by n.name
