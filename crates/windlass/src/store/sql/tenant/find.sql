-- A page of the tenants whose name or slug contains $1 (lower case; empty: all), by name, after the tenant $2. Index:
-- tenants_by_name, in its order from that position on: without a text only the page is read, with a rare text the whole
-- table.
select to_jsonb(t) from windlass.tenants t
 where ($1::text = '' or strpos(lower(t.name), $1) > 0 or strpos(t.slug, $1) > 0)
   and ($2::uuid is null or (lower(t.name), t.id) > ((select lower(a.name) from windlass.tenants a where a.id = $2), $2))
 order by lower(t.name), t.id
 limit $3
