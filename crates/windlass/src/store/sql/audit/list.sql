-- A page of the audit trail, newest first: of one tenant, or of all that row-level security allows.
-- Index: audit_pkey backwards for one tenant, audit_by_id for all.
select to_jsonb(a) - 'xid', a.id
  from windlass.audit a
 where ($1::uuid is null or a.tenant_id = $1) and a.id < $2
   and ($3::text is null or a.actor = $3) and ($4::text is null or a.action = $4) and ($5::text is null or a.target = $5)
   and ($6::text is null or a.outcome = $6)
 order by a.id desc
 limit $7
