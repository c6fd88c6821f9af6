-- The retention rules: each definition's rule per status, for all tenants without a rule of their own, and each
-- tenant's rules, of which one for the definition takes precedence over one for all. Rules that keep jobs forever are
-- omitted. duty is the name of the rule's progress mark. For a tenant whose history is read again, a definition's rule
-- is also listed as the tenant's, until that has advanced as far; the common mark is unchanged.
create or replace function windlass.retention_rules()
returns table (duty text, tenant_id uuid, definition_id uuid, definition_key text, status text, keep interval)
language sql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  with common as (
    select d.id, d.key, r.key as status, make_interval(secs => case when windlass.is_whole(r.value, 0, 3162240000)
           then r.value::double precision end) as keep
      from windlass.job_definitions d cross join lateral jsonb_each(case jsonb_typeof(d.retention) when 'object' then d.retention
        else '{}' end) r
     -- A rule that cannot be read is not applied.
     where windlass.is_whole(r.value, 0, 3162240000) and windlass.has_ended(windlass.state_code(r.key)))
  select 'prune ' || c.id || ' ' || c.status, null::uuid, c.id, c.key, c.status, c.keep from common c
  union all
  select distinct 'prune ' || c.id || ' ' || c.status || ' ' || a.tenant_id, a.tenant_id, c.id, c.key, c.status, c.keep
    from windlass.prune_again a
    join common c on coalesce(a.definition_key, c.key) = c.key and coalesce(a.status, c.status) = c.status
   where not exists (select from windlass.retention o
                      where o.tenant_id = a.tenant_id and o.status = c.status and o.definition_key in (c.key, '*'))
  union all
  select 'prune ' || o.definition_id || ' ' || o.status || ' ' || o.tenant_id, o.tenant_id, o.definition_id, o.key, o.status,
         make_interval(secs => o.keep_seconds)
    from (select distinct on (n.tenant_id, d.id, n.status) n.tenant_id, d.id as definition_id, d.key, n.status, n.keep_seconds
            from windlass.retention n join windlass.job_definitions d on n.definition_key in (d.key, '*')
           where n.status <> 'event'
           order by n.tenant_id, d.id, n.status, n.definition_key = '*') o
   where o.keep_seconds is not null
$$;

-- Sets or, with is_cleared, removes a tenant's own rule; returns whether there was a rule to remove. keep null means
-- forever. The mark of the previous rule must not hide jobs from the new one, so the tenant's history is read again
-- (see begin_again), unless the rule is unchanged.
create or replace function windlass.set_retention(tenant uuid, for_key text, for_status text, keep bigint,
  is_cleared boolean) returns boolean
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  was jsonb;
begin
  perform windlass.tenant_for(tenant);
  perform windlass.check_tenant_exists(tenant);
  if coalesce(for_status not in ('succeeded', 'failed', 'dead_letter', 'canceled', 'event'), true) then
    raise exception 'status must be succeeded, failed, dead_letter, canceled or event' using errcode = 'WL007', column = 'status';
  elsif for_status = 'event' and for_key <> '*' then
    raise exception 'events have no definition: definition_key must be *' using errcode = 'WL007', column = 'definition_key';
  elsif keep not between 0 and 3162240000 then
    raise exception 'keep_seconds must be between 0 and 3162240000 (100 years)' using errcode = 'WL007', column = 'keep_seconds';
  end if;
  if for_key is distinct from '*' and not exists (select from windlass.job_definitions d where d.key = for_key) then
    raise exception 'definition % not found', quote_nullable(for_key) using errcode = 'WL001', detail = coalesce(for_key, '');
  end if;
  if is_cleared then
    delete from windlass.retention r where r.tenant_id = tenant and r.definition_key = for_key and r.status = for_status
      returning windlass.recorded_rule(r) into was;
    if not found then
      return false;
    end if;
  else
    loop -- ends unless the rule is set or removed between the statements
      insert into windlass.retention (tenant_id, definition_key, status, keep_seconds) values (tenant, for_key, for_status, keep)
        on conflict (tenant_id, definition_key, status) do nothing;
      exit when found;
      select windlass.recorded_rule(r) into was from windlass.retention r
       where r.tenant_id = tenant and r.definition_key = for_key and r.status = for_status for update;
      if found then
        update windlass.retention r set keep_seconds = keep, updated_at = now()
         where r.tenant_id = tenant and r.definition_key = for_key and r.status = for_status and r.keep_seconds is distinct from keep;
        if not found then
          return true;
        end if;
        exit;
      end if;
    end loop;
  end if;
  perform windlass.record_act(tenant, case when is_cleared then 'retention.clear' else 'retention.set' end, for_key, was,
    (select windlass.recorded_rule(r) from windlass.retention r
      where r.tenant_id = tenant and r.definition_key = for_key and r.status = for_status));
  if for_status <> 'event' then -- events have no marks
    perform windlass.read_history_again(tenant, nullif(for_key, '*'), for_status);
  end if;
  return true;
end
$$;

-- A rule as the audit trail records it.
create or replace function windlass.recorded_rule(rule windlass.retention) returns jsonb
language sql stable
return jsonb_build_object('definition_key', rule.definition_key, 'status', rule.status, 'keep_seconds', rule.keep_seconds);

-- Requests that retention reads a tenant's history again: the jobs of a definition and a status, null for all. An
-- existing request starts again.
-- Lock: waits for a round of pruning that is processing the request, whose snapshot may be older than the caller's
-- change.
create or replace function windlass.read_history_again(tenant uuid, for_key text, for_status text) returns void
language plpgsql
as $$
#variable_conflict use_column
begin
  insert into windlass.prune_again (tenant_id, definition_key, status) values (tenant, for_key, for_status)
    on conflict (tenant_id, definition_key, status) do update set begun_at = null;
end
$$;
