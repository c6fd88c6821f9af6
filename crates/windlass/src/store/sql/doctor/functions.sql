-- The bodies of our functions as they are now, for comparison with this release's files.
select p.proname::text, p.prosrc from pg_catalog.pg_proc p
 where p.pronamespace = 'windlass'::regnamespace and p.prokind = 'f' order by 1
