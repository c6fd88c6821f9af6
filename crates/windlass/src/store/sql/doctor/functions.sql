-- The bodies of our functions as they are now, for comparison with this release's files. Those of other roles are in foreign.sql.
select p.proname::text, p.prosrc from pg_catalog.pg_proc p
 where p.pronamespace = 'windlass'::regnamespace and p.prokind = 'f'
   and p.proowner = to_regrole('windlass_owner') order by 1
