-- What an attacker with a schema of their own puts in the way, run as the attacker with `attack` as that schema: for every
-- function, operator and type of pg_catalog that our functions name, one of the same name and arguments. Each says so if it runs
-- as anybody else; the sequence remembers it even if the error is caught.
create schema attack;
create schema attack_domains;
grant usage on schema attack, attack_domains to public;
create sequence attack.ran;
grant all on sequence attack.ran to public;

do $$
declare
  body constant text := format($f$ begin
      if current_user operator(pg_catalog.<>) %L then
        perform pg_catalog.nextval('attack.ran');
        raise exception 'hostile code ran as %%', current_user using errcode = 'XX999';
      end if;
      return null;
    end $f$, current_user);
  ours constant text := (select string_agg(p.prosrc, ' ') from pg_proc p where p.pronamespace = 'windlass'::regnamespace);
  one record;
begin
  for one in
    select distinct p.proname, pg_get_function_identity_arguments(p.oid) as arguments, format_type(p.prorettype, null) as result,
           (select string_agg(format_type(t, null), ', ') from unnest(p.proargtypes) t) as types
      from pg_proc p join pg_type r on r.oid = p.prorettype
     where p.pronamespace = 'pg_catalog'::regnamespace and r.typtype <> 'p' and not p.proretset
       and not exists (select from unnest(p.proargtypes) a join pg_type t on t.oid = a where t.typtype = 'p')
       and p.proname in (select lower(m[1]) from regexp_matches(ours, '([a-z_][a-z0-9_]*)\s*\(', 'g') m)
  loop
    execute format('create or replace function attack.%I(%s) returns %s language plpgsql as %L', one.proname, one.types, one.result, body);
  end loop;
  for one in
    select o.oprname, format_type(o.oprleft, null) as l, format_type(o.oprright, null) as r, format_type(o.oprresult, null) as result, o.oid
      from pg_operator o join pg_type a on a.oid = o.oprleft join pg_type b on b.oid = o.oprright
     where o.oprnamespace = 'pg_catalog'::regnamespace and a.typtype <> 'p' and b.typtype <> 'p'
       and o.oprname in ('=', '<>', '<', '<=', '>', '>=', '||', '->', '->>', '#>>', '@>', '<@', '?', '~', '!~', '~~', '+', '-', '*', '/')
  loop
    execute format('create function attack.op_%s(%s, %s) returns %s language plpgsql as %L', one.oid, one.l, one.r, one.result, body);
    execute format('create operator attack.%s (leftarg = %s, rightarg = %s, function = attack.op_%s)', one.oprname, one.l, one.r, one.oid);
  end loop;
  for one in select unnest(array['uuid', 'text', 'jsonb', 'json', 'int4', 'int2', 'int8', 'bool', 'timestamptz', 'bytea', 'interval']) as name loop
    execute format('create type attack.%I as (value pg_catalog.text)', one.name);
    execute format('create function attack.cast_%s(attack.%I) returns pg_catalog.%I language plpgsql as %L', one.name, one.name, one.name, body);
    execute format('create cast (attack.%I as pg_catalog.%I) with function attack.cast_%s(attack.%I) as implicit', one.name, one.name, one.name, one.name);
    -- A variable that is declared without the schema of its type would run the check with every value.
    execute format('create function attack.check_%s(pg_catalog.%I) returns pg_catalog.bool language plpgsql as %L', one.name, one.name, body);
    execute format('create domain attack_domains.%I as pg_catalog.%I check (attack.check_%s(value))', one.name, one.name, one.name);
  end loop;
  -- Relations of our names, found first by whoever names one without its schema.
  for one in select c.relname from pg_class c where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p', 'v') and c.relname !~ '_w[0-9]{2}$' loop
    execute format('create temp table %I (tenant_id attack.uuid, job_id attack.uuid, id attack.uuid)', one.relname);
  end loop;
  create temp table windlass_inbox (tenant attack.uuid, job attack.uuid, lane attack.int4, max_attempts attack.int2, part attack.int4,
    payload attack.json, extra attack.jsonb);
end
$$;
