-- Damage in the catalog: an index that a failed CONCURRENTLY left invalid, and a tenant table whose row-level security
-- was switched off. A table with the column tenant_id is a tenant table.
select 'invalid index' as kind, c.relname::text as name
  from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid
 where c.relnamespace = 'windlass'::regnamespace and not i.indisvalid
union all
select 'unguarded table', c.relname::text
  from pg_catalog.pg_class c
  join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
 where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p')
   and not (c.relrowsecurity and c.relforcerowsecurity)
 order by 1, 2
