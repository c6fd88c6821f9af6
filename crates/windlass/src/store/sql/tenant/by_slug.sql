-- The tenant with a slug, as the API returns it.
-- Index: tenants_slug_unique.
select windlass.shown_tenant(t.id) from windlass.tenants t where t.slug = $1
