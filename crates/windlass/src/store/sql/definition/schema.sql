-- Whether a definition is active, and what its payloads must be. By the unique index on the key.
select d.is_active, d.arg_schema from windlass.job_definitions d where d.key = $1
