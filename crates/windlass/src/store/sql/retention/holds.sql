-- A tenant's legal holds, newest first; $2 only this one.
select to_jsonb(h) from windlass.legal_hold h where h.tenant_id = $1 and ($2::uuid is null or h.id = $2) order by h.created_at desc, h.id
