-- The number of tenants whose name or slug contains $1. Reads all of them: ten thousand take a few milliseconds.
select count(*) from windlass.tenants t where $1::text = '' or strpos(lower(t.name), $1) > 0 or strpos(t.slug, $1) > 0
