-- The installed migrations and functions, as the installer recorded them.
select m.version, m.name, m.checksum from windlass.migration m
union all
select 0, 'functions', i.checksum from windlass.installed_functions i
 order by 1
