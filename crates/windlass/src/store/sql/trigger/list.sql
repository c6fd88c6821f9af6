-- Triggers of a tenant, newest first; $2 one of them, $3 of a type, $4 created before this one (null: from the newest).
-- Few per tenant, and the primary key starts with the tenant. A disabled trigger has no next run, but an instant that
-- is not yet recorded as skipped.
select windlass.trigger_fields(t, d.key) || jsonb_build_object('redaction', d.redaction,
         'undecided_from', windlass.shown_instant(t.next_due_at),
         'next_due_at', case when t.is_enabled then windlass.shown_instant(t.next_due_at) end)
  from windlass.job_triggers t join windlass.job_definitions d on d.id = t.definition_id
 where t.tenant_id = $1 and t.deleted_at is null
   and ($2::uuid is null or t.id = $2) and ($3::text is null or t.trigger_type = $3)
   and ($4::uuid is null or (t.created_at, t.id) < (select o.created_at, o.id from windlass.job_triggers o where o.tenant_id = $1
     and o.id = $4))
 order by t.created_at desc, t.id desc limit $5 offset $6
