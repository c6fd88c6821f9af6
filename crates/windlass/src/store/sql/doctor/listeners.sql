-- Sessions that listen for notifications in this database. The server does not show what a session listens to, so this
-- checks the last statement of the session: LISTEN, or the NOTIFY that it sends itself.
select count(*) from pg_catalog.pg_stat_activity a
 where a.datname = current_database() and (a.query ilike 'listen windlass%' or starts_with(lower(a.query), 'notify windlass_'))
