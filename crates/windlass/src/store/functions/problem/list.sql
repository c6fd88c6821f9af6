-- All problems that keepers have recorded or skip, with the reason: problems recorded by duties, and stored rows that
-- cannot be used. The second kind is derived from the rows, so it disappears as soon as it is fixed. A recorded problem
-- counts for a day after it was last seen, and one of a trigger until that is changed. At most a thousand pending
-- events with a problem, as of recorded problems. Of the current tenant, or of all tenants.
create or replace function windlass.problems()
returns table (duty text, tenant_id uuid, subject text, reason text, since timestamptz, times integer)
language sql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select t.duty, t.tenant_id, t.subject, t.reason, t.since, t.times from windlass.problem t
   where (windlass.current_tenant() is null or t.tenant_id = windlass.current_tenant())
     and t.seen_at > clock_timestamp() - interval '24 hours'
     and (t.duty <> 'dispatch' or exists (select from windlass.job_triggers g
           where g.tenant_id = t.tenant_id and g.id::text = t.subject and g.deleted_at is null and g.updated_at <= t.seen_at))
  union all
  select e.* from (
    select 'dispatch', p.tenant_id, p.event_id::text, 'the event cannot be dispatched: ' || p.problem, v.emitted_at, 1
      from windlass.event_pending p left join windlass.event v on v.tenant_id = p.tenant_id and v.id = p.event_id
     where p.problem is not null and (windlass.current_tenant() is null or p.tenant_id = windlass.current_tenant())
     limit 1000) e
  union all
  select 'definition', '00000000-0000-0000-0000-000000000000', d.key, p.field || ' ' || p.problem, d.updated_at, 1
    from windlass.job_definitions d cross join lateral windlass.definition_problem(to_jsonb(d)) p
   where p.field is not null
  union all
  select 'definition', '00000000-0000-0000-0000-000000000000', d.key,
         format('on_purge is %s, which %s: jobs with an artifact are not deleted', d.on_purge,
           case when p.key is null then 'does not exist' else 'is not active' end), d.updated_at, 1
    from windlass.job_definitions d left join windlass.job_definitions p on p.key = d.on_purge
   where d.on_purge is not null and p.is_active is not true
  union all
  select 'purge_tenants', t.id, t.id::text, 'the tenant is being deleted, and some of its data is under legal hold', t.updated_at, 1
    from windlass.tenants t where t.status = 'deleting' and exists (select from windlass.legal_hold h where h.tenant_id = t.id)
     and (windlass.current_tenant() is null or t.id = windlass.current_tenant())
  union all
  select 'partition', '00000000-0000-0000-0000-000000000000', p.name, p.problem, null, 1 from windlass.partition_problems() p
   where windlass.current_tenant() is null
  union all
  select 'seal', s.tenant_id, s.audit_id::text, 'the audit row could not be read when it was chained; its content cannot be verified',
         s.sealed_at, 1
    from windlass.audit_seals s
   where s.form = 3 and (windlass.current_tenant() is null or s.tenant_id = windlass.current_tenant())
  order by 1, 2, 3
$$;
