-- The state of the server: its version, the settings that durability and speed depend on, and how close it is to its limits.
-- Reads no table of ours, so it also works on a database that was never migrated.
select current_setting('server_version_num')::integer as version, current_setting('server_version') as version_text,
       pg_is_in_recovery() as is_replica,
       array(select s.name || '=' || s.setting from pg_catalog.pg_settings s
              where s.name in ('fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum', 'track_counts',
                               'zero_damaged_pages', 'ignore_checksum_failure', 'default_transaction_read_only',
                               'max_wal_size', 'checkpoint_timeout', 'wal_compression',
                               'commit_delay', 'autovacuum_naptime', 'autovacuum_max_workers',
                               'autovacuum_vacuum_cost_delay', 'autovacuum_vacuum_cost_limit', 'vacuum_cost_delay', 'vacuum_cost_limit')
              order by s.name) as settings,
       (select count(*) from pg_catalog.pg_stat_activity a where a.backend_type = 'client backend') as connections,
       current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint as most_connections,
       pg_notification_queue_usage() as notification_queue,
       (select age(d.datfrozenxid)::bigint from pg_catalog.pg_database d where d.datname = current_database()) as transaction_age,
       to_regclass('windlass.migration') is not null as has_schema,
       not pg_has_role('pg_read_all_stats', 'usage') as is_blind,
       (extract(epoch from clock_timestamp()) * 1000)::bigint as clock_ms
