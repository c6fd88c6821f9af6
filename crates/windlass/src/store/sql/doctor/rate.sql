-- The attempts per second that ended in the busiest minute of the last day, over all tenants (the nil tenant has the sums). The
-- newest row can be of a minute that has not ended. Index: activity_by_time, limited to a day.
select coalesce(max(m.ended), 0)::double precision / 60 as jobs_per_second
  from (select sum(a.succeeded + a.failed) as ended
          from windlass.activity a
         where a.tenant_id = '00000000-0000-0000-0000-000000000000' and a.at >= clock_timestamp() - interval '1 day'
         group by date_trunc('minute', a.at)) m
