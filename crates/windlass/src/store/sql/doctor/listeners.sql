-- Sessions that listen for wake-ups in this database. The server does not tell what a session listens to; ours say it in
-- the last statement they ran, which stays their last but for the word they send themselves.
select count(*) from pg_catalog.pg_stat_activity a
 where a.datname = current_database() and (a.query ilike 'listen windlass%' or a.query ilike 'notify windlass\_%')
