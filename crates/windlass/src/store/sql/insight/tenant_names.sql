-- Tenants by name: those with the ids of $1, or the first $2 of all that the caller may see.
-- Index: tenants_pkey where ids are given, tenants_by_name in its order otherwise.
select t.id, t.name from windlass.tenants t
 where $1::uuid[] is null or t.id = any ($1)
 order by lower(t.name), t.id
 limit $2
