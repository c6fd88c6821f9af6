-- Enables row-level security for one table. Not forced: it would apply to the owner too, which needs every row, and then no login but a
-- superuser could dump the table (decision 0021). The owner's policy is for a table on which somebody forced it by hand.
-- `reads` names the tenant column of tables that roles may read: the rows of the current tenant, or of all tenants for the
-- admin, and for an operator without a current tenant. The nil id is the installation and not a tenant: roles
-- of one tenant do not read its rows, such as sums over all tenants. A partition has no such policies, so it can be read
-- only through its parent.
-- Trap: each of these statements takes an exclusive lock on the table, so only differences are applied. A policy is
-- compared by its name and roles; if its condition changes, it needs a new name.
create or replace function windlass.guard_table(name text, reads text default null) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  guarded regclass := format('windlass.%I', name)::regclass;
  wanted record;
begin
  if exists (select from pg_policy p where p.polrelid = guarded and p.polname = 'tenant_reads') then -- of an older build; it included nil
    execute format('drop policy tenant_reads on windlass.%I', name);
  end if;
  if not (select c.relrowsecurity from pg_class c where c.oid = guarded) then
    execute format('alter table windlass.%I enable row level security', name);
  end if;
  if (select c.relforcerowsecurity from pg_class c where c.oid = guarded) then
    execute format('alter table windlass.%I no force row level security', name);
  end if;
  for wanted in
    select w.policy, w.roles, w.rule from (values
        ('owner_moves_jobs', array['windlass_owner'], 'using (true) with check (true)', true),
        ('tenant_reads_own', array['windlass_app', 'windlass_reader', 'windlass_server'],
          format('using (%I = (select nullif(windlass.current_tenant(), %L::uuid)))', coalesce(reads, ''),
            '00000000-0000-0000-0000-000000000000'), reads is not null),
        ('admin_reads', array['windlass_admin'], 'using (true)', reads is not null),
        ('operator_reads', array['windlass_operator'],
          format('using ((select windlass.current_tenant()) is null or %I = (select windlass.current_tenant()))',
          coalesce(reads, '')), reads is not null)) w (policy, roles, rule, is_wanted)
     where w.is_wanted
       and not exists (select from pg_policy p where p.polrelid = guarded and p.polname = w.policy
             and array(select r::regrole::text from unnest(p.polroles) r order by 1) = array(select r from unnest(w.roles) r order by 1))
  loop
    execute format('drop policy if exists %I on windlass.%I', wanted.policy, name);
    execute format('create policy %I on windlass.%I for %s to %s %s', wanted.policy, name,
      case when wanted.policy = 'owner_moves_jobs' then 'all' else 'select' end, array_to_string(wanted.roles, ', '), wanted.rule);
  end loop;
end
$$;

-- Lets nobody but the owner create objects that depend on the row type of a table: a table whose type is that of a column elsewhere
-- cannot be altered, and every login that can use the schema could stop migrations. Queries do not need this privilege. The types of
-- views stay open, because views can be altered. A dump does not contain these privileges, so the keeper calls this too.
create or replace function windlass.guard_types() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  open record;
begin
  for open in
    select c.relname from pg_class c join pg_type t on t.oid = c.reltype
     where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p') and t.typowner = 'windlass_owner'::regrole
       and exists (select from aclexplode(coalesce(t.typacl, acldefault('T', t.typowner))) a where a.grantee = 0)
  loop
    execute format('revoke usage on type windlass.%I from public', open.relname);
  end loop;
end
$$;
