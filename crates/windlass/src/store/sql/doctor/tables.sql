-- Dead rows per table of ours, by the server's statistics, worst first. A table without statistics is omitted.
select s.relname::text as name, s.n_live_tup as live_rows, s.n_dead_tup as dead_rows, pg_total_relation_size(s.relid) as bytes,
       extract(epoch from clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum))::bigint as vacuumed_seconds
  from pg_catalog.pg_stat_user_tables s
 where s.schemaname = 'windlass' and s.n_dead_tup > 0
 order by s.n_dead_tup desc
 limit 10
