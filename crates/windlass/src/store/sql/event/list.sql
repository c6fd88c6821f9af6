-- Events of a tenant, newest first, with their dispatches; $2 one of them, $3 by name, $4 older than this id, $5 only
-- those with a problem or a failed trigger. Index: the primary key backwards, or event_by_name.
select jsonb_build_object('id', e.id, 'tenant_id', e.tenant_id, 'name', e.name, 'payload', e.payload, 'emitted_at', e.emitted_at,
         'dedupe_id', e.dedupe_id, 'correlation_id', e.correlation_id, 'created_by', e.created_by,
         'is_pending', exists (select from windlass.event_pending p where p.tenant_id = e.tenant_id and p.event_id = e.id),
         'problem', (select p.problem from windlass.event_pending p where p.tenant_id = e.tenant_id and p.event_id = e.id),
         'triggers', coalesce((select jsonb_agg(jsonb_build_object('trigger_id', d.trigger_id, 'outcome', d.outcome, 'reason', d.reason,
              'job_id', d.job_id, 'decided_at', d.decided_at) order by d.trigger_id)
            from windlass.event_dispatch d where d.tenant_id = e.tenant_id and d.event_id = e.id), '[]')), e.id
  from windlass.event e
 where e.tenant_id = $1 and ($2::uuid is null or e.id = $2) and ($3::text is null or e.name = $3)
   and ($4::uuid is null or e.id < $4)
   and (not $5::boolean
        or exists (select from windlass.event_dispatch d where d.tenant_id = $1 and d.event_id = e.id and d.outcome = 'failed')
        or exists (select from windlass.event_pending p where p.tenant_id = $1 and p.event_id = e.id and p.problem is not null))
 order by e.id desc limit $6 offset $7
