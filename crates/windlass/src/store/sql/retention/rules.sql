-- A tenant's own rules: a few rows of one key range.
select to_jsonb(r) from windlass.retention r where r.tenant_id = $1 order by r.definition_key, r.status
