-- The database's time and the zone of a tenant: what a new schedule is reckoned from.
select clock_timestamp(), (select t.timezone from windlass.tenants t where t.id = $1)
