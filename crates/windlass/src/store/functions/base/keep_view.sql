-- Creates a view, or replaces it if its definition has changed. `create or replace view` takes an exclusive lock on the
-- view and waits for every open transaction that has read it, so the existing view is compared with the wanted one
-- first.
create or replace function windlass.keep_view(name text, query text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  kept regclass := to_regclass(format('windlass.%I', name));
  is_same boolean := false;
begin
  if kept is not null then
    execute format('create view windlass.wanted_view with (security_invoker = true) as %s', query);
    select pg_get_viewdef(w.oid) = pg_get_viewdef(k.oid) and w.reloptions is not distinct from k.reloptions into is_same
      from pg_class w, pg_class k where w.oid = 'windlass.wanted_view'::regclass and k.oid = kept;
    drop view windlass.wanted_view;
  end if;
  if not is_same then
    execute format('create or replace view windlass.%I with (security_invoker = true) as %s', name, query);
  end if;
end
$$;
