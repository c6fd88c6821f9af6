-- Ids of a tenant's jobs that mention a text: in their subject, their keys, their tags or their payload. Looks at the newest
-- five thousand below the bound only: no index knows what is in a payload, and a search must cost the same at any size of history.
-- Index: job_pkey backwards.
select b.id
  from (select * from windlass.job j where j.tenant_id = $1 and j.id < $2 and j.id >= $3 order by j.id desc limit 5000) b
 where b.subject_id = $5 or b.correlation_id = $5 or b.source_ref = $5 or b.dedupe_key = $5 or $5 = any (b.tags)
    or strpos(windlass.searchable(b.payload), replace(replace(lower($5), ': ', ':'), ', ', ',')) > 0
 order by b.id desc
 limit $4
