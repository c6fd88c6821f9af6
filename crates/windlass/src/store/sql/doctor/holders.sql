-- What prevents the removal of dead rows: open transactions of any database, prepared ones, and replication slots,
-- oldest first. Dead rows stay until the oldest of these ends, and every claim has to skip them.
select h.kind, h.who, h.age_seconds, h.doing
  from (select 'transaction' as kind,
               format('pid %s, %s of %s in %s', a.pid, coalesce(nullif(a.application_name, ''), 'no application name'),
                      coalesce(a.usename, 'the server'), coalesce(a.datname, 'no database')) as who,
               extract(epoch from clock_timestamp() - a.xact_start)::bigint as age_seconds,
               format('%s: %s', coalesce(a.state, 'unknown'), left(regexp_replace(a.query, '[[:space:]]+', ' ', 'g'), 120)) as doing
          from pg_catalog.pg_stat_activity a
         where a.xact_start is not null and a.pid <> pg_backend_pid() and a.backend_type = 'client backend'
        union all
        select 'prepared transaction', format('%s of %s in %s', p.gid, p.owner, p.database),
               extract(epoch from clock_timestamp() - p.prepared)::bigint, 'waiting for COMMIT PREPARED or ROLLBACK PREPARED'
          from pg_catalog.pg_prepared_xacts p
        union all
        select 'replication slot', s.slot_name::text, null, format('holds back %s transactions', age(s.xmin))
          from pg_catalog.pg_replication_slots s where s.xmin is not null and not s.active) h
 order by h.age_seconds desc nulls last
 limit 5
