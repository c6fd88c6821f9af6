-- Every job, with the parts of its payload that the checker compares with the ledger.
select b.id, b.tenant_id, d.key, coalesce((b.payload ->> 'n')::bigint, 0), coalesce((b.payload ->> 'children')::bigint, 0), b.parent_id,
       b.max_attempts, b.dedupe_key, b.scheduled_for
  from windlass.job b
  join windlass.lane n on n.tenant_id = b.tenant_id and n.id = b.lane
  join windlass.job_definitions d on d.id = n.definition_id
