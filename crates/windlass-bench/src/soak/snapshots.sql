-- In one snapshot: the unfinished jobs of a tenant, its running jobs, and the running jobs of a definition.
with running as (
  select l.tenant_id, d.key, cardinality(l.ids) - bit_count(l.ended::bit(64)) as jobs
    from windlass.live l
    join windlass.lane n on n.tenant_id = l.tenant_id and n.id = l.lane
    join windlass.job_definitions d on d.id = n.definition_id)
select ((select coalesce(sum(cardinality(ids)), 0) from windlass.line where tenant_id = $1)
      + (select coalesce(sum(jobs), 0) from running where tenant_id = $1)
      + (select count(*) from windlass.deferred where tenant_id = $1)
      + (select count(*) from windlass.blocked where tenant_id = $1))::bigint,
       (select coalesce(sum(jobs), 0) from running where tenant_id = $1)::bigint,
       (select coalesce(sum(jobs), 0) from running where key = $2)::bigint
