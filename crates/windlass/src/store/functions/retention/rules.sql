-- What is kept how long: each definition's own rule for its statuses, for all tenants that have none of their own, and each
-- tenant's, of which one that names the definition comes before one for all. Rules that keep for ever are left out.
-- duty is the name under which a rule's progress is kept.
create or replace function windlass.retention_rules()
returns table (duty text, tenant_id uuid, definition_id uuid, definition_key text, status text, keep interval)
language sql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select 'prune ' || d.id || ' ' || r.key, null::uuid, d.id, d.key, r.key, make_interval(secs => r.value::double precision)
    from windlass.job_definitions d cross join lateral jsonb_each_text(d.retention) r
   where r.value is not null and windlass.state_code(r.key) <= 4
  union all
  select 'prune ' || o.definition_id || ' ' || o.status || ' ' || o.tenant_id, o.tenant_id, o.definition_id, o.key, o.status,
         make_interval(secs => o.keep_seconds)
    from (select distinct on (n.tenant_id, d.id, n.status) n.tenant_id, d.id as definition_id, d.key, n.status, n.keep_seconds
            from windlass.retention n join windlass.job_definitions d on n.definition_key in (d.key, '*')
           where n.status <> 'event'
           order by n.tenant_id, d.id, n.status, n.definition_key = '*') o
   where o.keep_seconds is not null
$$;

-- How far each rule has come, for whoever asks "is it being deleted?".
create or replace function windlass.retention_progress()
returns table (tenant_id uuid, definition_key text, status text, keep_seconds bigint, reached timestamptz, behind_seconds bigint, purged bigint,
  looked_at timestamptz)
language sql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select r.tenant_id, r.definition_key, r.status, extract(epoch from r.keep)::bigint, nullif(m.reached, '-infinity'),
         case when m.reached > '-infinity' then greatest(0, extract(epoch from clock_timestamp() - r.keep - m.reached)) end::bigint,
         coalesce(m.moved, 0), m.updated_at
    from windlass.retention_rules() r left join windlass.keeper_mark m on m.duty = r.duty
   where windlass.current_tenant() is null or r.tenant_id is null or r.tenant_id = windlass.current_tenant()
   order by r.definition_key, r.status, r.tenant_id nulls first
$$;

-- Sets or, with is_cleared, takes away a tenant's own rule; answers whether there was one to take. keep null is for ever. A mark that a rule has passed must
-- not hide what the new rule means, so the marks of the definition begin anew: history is read once more.
create or replace function windlass.set_retention(tenant uuid, for_key text, for_status text, keep bigint, is_cleared boolean) returns boolean
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  perform windlass.tenant_for(tenant);
  if for_key <> '*' and not exists (select from windlass.job_definitions d where d.key = for_key) then
    raise exception 'there is no definition with key %', quote_literal(for_key) using errcode = 'WL001', detail = for_key;
  end if;
  if is_cleared then
    delete from windlass.retention r where r.tenant_id = tenant and r.definition_key = for_key and r.status = for_status;
    if not found then
      return false;
    end if;
  else
    insert into windlass.retention (tenant_id, definition_key, status, keep_seconds) values (tenant, for_key, for_status, keep)
      on conflict (tenant_id, definition_key, status) do update set keep_seconds = excluded.keep_seconds, updated_at = now();
  end if;
  update windlass.keeper_mark m set reached = '-infinity'
   where m.duty in (select r.duty from windlass.retention_rules() r where r.status = for_status and for_key in (r.definition_key, '*'));
  return true;
end
$$;
