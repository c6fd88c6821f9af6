-- Roles and the schema.
--
-- The owner owns every object and never logs in; the functions that move jobs run as it. The others are
-- groups that a deployment grants to its own login roles. Roles belong to the whole server, so another
-- database may have made them already, and two databases may be making them at this moment.
do $$
declare
  wanted text;
begin
  foreach wanted in array array['windlass_owner', 'windlass_migrator', 'windlass_api', 'windlass_worker', 'windlass_reader'] loop
    if not exists (select from pg_roles where rolname = wanted) then
      begin
        execute format('create role %I nologin nosuperuser nocreatedb nocreaterole nobypassrls', wanted);
      exception when duplicate_object or unique_violation then
        null; -- made by a neighbour in the meantime
      end;
    end if;
  end loop;
  -- Granting rewrites a row of the shared catalog, where ten processes starting at once would collide: only when missing.
  if not pg_has_role('windlass_migrator', 'windlass_owner', 'member') then
    begin
      grant windlass_owner to windlass_migrator;
    exception when unique_violation or internal_error then
      null; -- "tuple concurrently updated": a neighbour is granting the same
    end;
  end if;
  if not pg_has_role(current_user, 'windlass_owner', 'member') then
    execute format('grant windlass_owner to %I', current_user);
  end if;
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
grant usage on schema windlass to windlass_migrator, windlass_api, windlass_worker, windlass_reader;

alter table windlass.migration owner to windlass_owner;
alter table windlass.installed_functions owner to windlass_owner;
