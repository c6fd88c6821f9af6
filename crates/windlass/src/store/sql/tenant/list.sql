-- The tenants that this role may see, by slug.
-- Index: tenants_slug_unique.
select to_jsonb(t) - 'purge_barrier' from windlass.tenants t order by t.slug
