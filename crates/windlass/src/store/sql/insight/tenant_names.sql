-- Tenants by name: those with the ids of $1, or the first $2 of all that the caller may see.
-- Index: tenants_pkey where ids are given. Without them the table is read whole: ten thousand tenants are a few milliseconds.
select t.id, t.name from windlass.tenants t
 where $1::uuid[] is null or t.id = any ($1)
 order by lower(t.name), t.id
 limit $2
