-- Roles and the schema.
--
-- The owner owns every object and never logs in; the functions that move jobs run as the owner. The other roles are
-- groups that a deployment grants to its logins: docs/guides/security.md has the table, decision 0014 the reasons.
-- Roles belong to the whole server: another database may have created them already, or be creating them now.
do $$
declare
  wanted text;
begin
  foreach wanted in array array['windlass_owner', 'windlass_migrator', 'windlass_app', 'windlass_worker', 'windlass_keeper',
      'windlass_server', 'windlass_admin', 'windlass_operator', 'windlass_reader'] loop
    if not exists (select from pg_roles where rolname = wanted) then
      begin
        execute format('create role %I nologin nosuperuser nocreatedb nocreaterole nobypassrls %s', wanted,
          case when wanted = 'windlass_server' then 'noinherit' else 'inherit' end);
      exception when duplicate_object or unique_violation then
        null; -- created concurrently by another database
      end;
    end if;
  end loop;
end
$$;

-- Memberships. The server may become the others but does not inherit from them: each has to be taken with SET ROLE.
-- From PostgreSQL 16 on, INHERIT and SET are options of the grant, and the creator of a role may not SET ROLE to it by
-- default; before, inheriting is an attribute of the member. A grant rewrites a row of the shared catalog, where ten
-- processes that start at once would conflict, so only missing memberships are granted.
do $$
declare
  wanted record;
  has_options boolean := current_setting('server_version_num')::integer >= 160000;
  is_there boolean;
begin
  for wanted in
    select * from (values ('windlass_owner', 'windlass_migrator', true), ('windlass_admin', 'windlass_server', false),
        ('windlass_worker', 'windlass_server', false), ('windlass_keeper', 'windlass_server', false),
        ('windlass_app', 'windlass_server', false), ('windlass_operator', 'windlass_server', false),
        ('windlass_owner', current_user::text, true)) w (role, member, inherits)
  loop
    is_there := pg_has_role(wanted.member, wanted.role, case when has_options then 'SET' else 'MEMBER' end);
    if not is_there then
      begin
        execute format('grant %I to %I %s', wanted.role, wanted.member,
          case when has_options then format('with set true, inherit %s', wanted.inherits::text) else '' end);
      exception when unique_violation or internal_error then
        null; -- "tuple concurrently updated": another process is granting the same
      end;
    end if;
  end loop;
end
$$;

do $$
begin
  if not exists (select from pg_namespace where nspname = 'windlass') then
    create schema windlass;
  end if;
  execute 'alter schema windlass owner to windlass_owner';
end
$$;

-- Whoever could create objects in it before cannot any more; `migrate` has checked that nobody has.
do $$
declare
  grantee text;
begin
  for grantee in
    select distinct case g.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(g.grantee)) end
      from pg_namespace n cross join lateral aclexplode(n.nspacl) g where n.nspname = 'windlass' and g.grantee <> n.nspowner
  loop
    execute format('revoke all on schema windlass from %s', grantee);
  end loop;
end
$$;

revoke all on schema windlass from public;
grant usage on schema windlass to windlass_migrator, windlass_app, windlass_worker, windlass_keeper, windlass_server,
  windlass_admin, windlass_operator, windlass_reader;

alter table windlass.migration owner to windlass_owner;
alter table windlass.installed_functions owner to windlass_owner;
