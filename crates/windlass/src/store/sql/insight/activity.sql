-- What ended and what waited per queue, in spans of $3 seconds since $2, of one tenant; the nil tenant's rows are the sums
-- over all. Index: activity_pkey for the tenant, bounded by what a day of slots holds.
select date_bin(make_interval(secs => $3::double precision), a.at, 'epoch') as from_at, a.queue,
       sum(a.succeeded)::bigint as succeeded, sum(a.failed)::bigint as failed, max(a.queued) as queued, max(a.running) as running
  from windlass.activity a
 where a.tenant_id = $1 and a.at >= $2
 group by 1, 2
 order by 1, 2
