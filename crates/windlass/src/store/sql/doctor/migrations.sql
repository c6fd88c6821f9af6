-- What was installed, by the installer's own books.
select m.version, m.name, m.checksum from windlass.migration m
union all
select 0, 'functions', i.checksum from windlass.installed_functions i
 order by 1
