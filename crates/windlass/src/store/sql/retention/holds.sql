-- What a tenant must keep, newest first.
select to_jsonb(h) from windlass.legal_hold h where h.tenant_id = $1 order by h.created_at desc, h.id
