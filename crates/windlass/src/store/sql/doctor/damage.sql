-- Damage in the catalog that no migration repairs: an index that a failed CONCURRENTLY left invalid.
select 'invalid index' as kind, c.relname::text as name
  from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid
 where c.relnamespace = 'windlass'::regnamespace and not i.indisvalid
 order by 2
