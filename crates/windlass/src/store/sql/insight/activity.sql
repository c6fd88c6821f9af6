-- Attempts that ended and jobs that waited per queue, in intervals of $3 seconds since $2, of one tenant; the rows of
-- the nil tenant are the sums over all. Index: activity_pkey for the tenant, limited to the slots of a day.
select date_bin(make_interval(secs => $3::double precision), a.at, 'epoch') as from_at, a.queue,
       sum(a.succeeded)::bigint as succeeded, sum(a.failed)::bigint as failed, max(a.queued) as queued, max(a.running) as running
  from windlass.activity a
 where a.tenant_id = $1 and a.at >= $2
 group by 1, 2
 order by 1, 2
