-- Roles and the schema.
--
-- The owner owns every object and never logs in; the functions that move jobs run as it. The others are groups that a
-- deployment grants to its own logins: docs/guides/security.md has the table, decision 0014 the reasons. Roles belong to the
-- whole server: another database may have made them already, and two databases may be making them at this moment.
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
        null; -- made by a neighbour in the meantime
      end;
    end if;
  end loop;
end
$$;

-- Memberships. The server may become the others but inherits nothing of them: each has to be taken with SET ROLE. From
-- PostgreSQL 16 on inheriting and SET ROLE are options of the grant, and whoever creates a role may not SET ROLE to it unasked;
-- before, inheriting is an attribute of the member. Granting rewrites a row of the shared catalog, where ten processes
-- starting at once would collide: only what is missing is granted.
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
        null; -- "tuple concurrently updated": a neighbour is granting the same
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

revoke all on schema windlass from public;
grant usage on schema windlass to windlass_migrator, windlass_app, windlass_worker, windlass_keeper, windlass_server,
  windlass_admin, windlass_operator, windlass_reader;

alter table windlass.migration owner to windlass_owner;
alter table windlass.installed_functions owner to windlass_owner;
