-- How many tenants hold the text of $1 in their name or slug. Reads them all: ten thousand are a few milliseconds.
select count(*) from windlass.tenants t where $1::text = '' or strpos(lower(t.name), $1) > 0 or strpos(t.slug, $1) > 0
