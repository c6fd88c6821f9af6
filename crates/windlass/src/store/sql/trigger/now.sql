-- The database's time and the time zone of a tenant, from which a new schedule is computed.
select clock_timestamp(), (select t.timezone from windlass.tenants t where t.id = $1)
