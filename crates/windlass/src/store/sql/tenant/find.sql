-- A page of the tenants whose name or slug holds the text of $1 (small letters; empty: all), by name, after the one of $2.
-- Index: tenants_by_name, in its order from that place on: without a text a page reads itself alone, with a rare one the table.
select to_jsonb(t) from windlass.tenants t
 where ($1::text = '' or strpos(lower(t.name), $1) > 0 or strpos(t.slug, $1) > 0)
   and ($2::uuid is null or (lower(t.name), t.id) > ((select lower(a.name) from windlass.tenants a where a.id = $2), $2))
 order by lower(t.name), t.id
 limit $3
