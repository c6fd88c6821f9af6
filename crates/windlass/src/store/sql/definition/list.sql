-- Every definition as it is shown, by its key.
select windlass.shown_definition(d.id) from windlass.job_definitions d order by d.key
