-- What a login with CREATE on `public` can put in the way of our own processes: for every function of pg_catalog that takes values of any
-- type, one that takes exactly the types that we use. It is a better match than the one of pg_catalog wherever `public` is in the search
-- path. Each of them fails, and the sequence records it even if the error is handled.
create sequence public.shadow_calls;
grant all on sequence public.shadow_calls to public;
do $$
declare
  body constant text := 'begin perform pg_catalog.nextval(''public.shadow_calls''); raise exception ''a function of public ran''; end';
  one record;
begin
  for one in
    select distinct p.proname, a.arguments, r.result
      from pg_proc p
      cross join unnest(array['uuid', 'text', 'integer', 'bigint', 'smallint', 'boolean', 'jsonb', 'timestamptz']) e (type)
      cross join lateral (select regexp_replace(regexp_replace(pg_get_function_identity_arguments(p.oid),
        '\many(compatible)?array\M', e.type || '[]', 'g'),
        '\many(compatible|element|nonarray|compatiblenonarray)\M', e.type, 'g')) a (arguments)
      cross join lateral (select regexp_replace(regexp_replace(pg_get_function_result(p.oid),
        '\many(compatible)?array\M', e.type || '[]', 'g'),
        '\many(compatible|element|nonarray|compatiblenonarray)\M', e.type, 'g')) r (result)
     where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind = 'f' and p.provariadic = 0
       and pg_get_function_identity_arguments(p.oid) ~ '\many(compatible)?(array|element|nonarray)?\M'
       and a.arguments !~ 'any|internal|cstring' and r.result !~ 'any|internal|cstring|record'
    union all
    select 'jsonb_build_object', 'text, ' || e.type, 'jsonb'
      from unnest(array['uuid', 'text', 'integer', 'bigint', 'boolean', 'jsonb', 'timestamptz']) e (type)
  loop
    execute format('create or replace function public.%I(%s) returns %s language plpgsql as %L',
      one.proname, one.arguments, one.result, body);
  end loop;
end
$$;
