-- Every definition as the API returns it, by key.
select windlass.shown_definition(d.id) from windlass.job_definitions d order by d.key
