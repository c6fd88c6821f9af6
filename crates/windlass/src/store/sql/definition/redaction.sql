-- What a definition redacts in payloads. Index: the unique index on the key.
select d.redaction from windlass.job_definitions d where d.key = $1
