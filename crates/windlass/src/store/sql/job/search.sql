-- The next jobs of a tenant below an id, with the texts that a search matches and the redaction of their definitions:
-- the caller redacts and then matches. Reads $4 rows and returns those that have at most $5 bytes together, but at
-- least one. Index: job_pkey backwards.
select b.id, b.subject_id, b.correlation_id, b.source_ref, b.dedupe_key, b.tags, b.payload::text, d.redaction
  from (select j.*, row_number() over line as nth, sum(octet_length(j.payload::text)) over line as so_far
          from (select * from windlass.job j where j.tenant_id = $1 and j.id < $2 and j.id >= $3 order by j.id desc limit $4) j
        window line as (order by j.id desc)) b
  join windlass.lane n on n.id = b.lane
  join windlass.job_definitions d on d.id = n.definition_id
 where b.nth = 1 or b.so_far <= $5
 order by b.id desc
