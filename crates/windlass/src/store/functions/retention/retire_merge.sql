-- How many partitions of one table there may be before old ones are merged.
create or replace function windlass.many_partitions() returns integer
language sql immutable parallel safe
return 60;

-- Adjacent narrow partitions that become one: those of ten minutes, an hour, six hours or a day, whichever is complete first.
-- Every partition costs planning time, and those of an hour with many jobs have few when most jobs are deleted. Each merge
-- copies all their jobs, so this is done only while there are many partitions. At most 12 at a time, because each is detached
-- under the exclusive locks of the swap; and without a gap, because jobs of a gap are in the default partition.
create or replace function windlass.retire_merge(shortest interval, out low uuid, out high uuid)
language sql stable
as $$
  with ranges as materialized (
    select r.low, r.high, windlass.uuid7_instant(r.low) as begins, windlass.uuid7_instant(r.high) as ends, s.jobs
      from windlass.partition_ranges() r join windlass.partition_sizes() s on s.low = r.low and s.high = r.high),
  narrow as (
    select u.width, date_bin(u.width, r.begins, '2000-01-01 00:00Z') as bin, r.low, r.high, r.jobs,
           lag(r.high) over (partition by u.width, date_bin(u.width, r.begins, '2000-01-01 00:00Z') order by r.low)
             is distinct from r.low as starts
      from ranges r cross join unnest(array[interval '10 minutes', interval '1 hour', interval '6 hours', interval '1 day']) u (width)
     where r.ends - r.begins < u.width
       and date_bin(u.width, r.begins, '2000-01-01 00:00Z') + u.width <= clock_timestamp() - shortest),
  runs as (select n.*, count(*) filter (where n.starts) over (partition by n.width, n.bin order by n.low) as run from narrow n)
  select (array_agg(r.low order by r.low))[1], (array_agg(r.high order by r.low desc))[1] from runs r
   where (select count(*) from ranges) > windlass.many_partitions()
   group by r.width, r.bin, r.run having count(*) between 2 and 12 and sum(r.jobs) <= 1000000
   order by r.width, r.bin, r.run limit 1
$$;
