-- Whether a definition is active, and the schema of its payloads. Index: the unique index on the key.
select d.is_active, d.arg_schema from windlass.job_definitions d where d.key = $1
