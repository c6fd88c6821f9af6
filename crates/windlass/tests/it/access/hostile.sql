-- What an attacker with a schema of their own puts in the way, run as the attacker with `attack` as that schema: for every
-- function, operator and type of pg_catalog that our functions name, and for every function of our own, one of the same name and
-- arguments. What takes values of any type is there once for each type that we use. Each says so if it runs as anybody else; the
-- sequence remembers it even if the error is caught.
create schema attack;
create schema attack_domains;
grant usage on schema attack, attack_domains to public;
create sequence attack.ran;
grant all on sequence attack.ran to public;

-- A type with whatever stands for any type replaced by this one; null if it cannot be.
create function attack.of_element(type text, element text) returns text language sql immutable as $$
  select case when type ~ 'anyenum|anyrange|anymultirange|"any"|\minternal\M|\mcstring\M|ORDER BY' then null
    else regexp_replace(regexp_replace(type, '\many(compatible)?array\M', element || '[]', 'g'),
                        '\many(compatible|element|nonarray|compatiblenonarray)\M', element, 'g') end
$$;

-- Whatever has the same name and arguments already is as hostile.
create function attack.put(statement text) returns void language plpgsql as $$
begin
  execute statement;
exception when duplicate_function or invalid_function_definition then
  null;
end
$$;

do $$
declare
  alarm constant text := format($f$
      if current_user operator(pg_catalog.<>) %L then
        perform pg_catalog.nextval('attack.ran');
        raise exception 'hostile code ran as %%', current_user using errcode = 'XX999';
      end if;$f$, current_user);
  body constant text := 'begin' || alarm || ' return null; end';
  body_of_set constant text := 'begin' || alarm || ' return; end';
  elements constant text[] := array['uuid', 'text', 'integer', 'jsonb'];
  ours constant text := (select string_agg(p.prosrc, ' ') from pg_proc p where p.pronamespace = 'windlass'::regnamespace);
  one record;
begin
  -- Of the catalog those that we name, and ours all.
  for one in
    select distinct p.proname, attack.of_element(pg_get_function_arguments(p.oid), e) as arguments,
           attack.of_element(pg_get_function_result(p.oid), e) as result,
           p.proretset or coalesce(p.proargmodes && array['o', 'b', 't']::"char"[], false) as has_no_value
      from pg_proc p cross join unnest(elements) e
     where p.prokind <> 'p' and p.provariadic = 0 and p.prorettype <> 'trigger'::regtype
       and (p.pronamespace = 'windlass'::regnamespace
         or p.pronamespace = 'pg_catalog'::regnamespace
            and p.proname in (select lower(m[1]) from regexp_matches(ours, '([a-z_][a-z0-9_]*)\s*\(', 'g') m))
  loop
    perform attack.put(format('create function attack.%I(%s) returns %s language plpgsql as %L', one.proname, one.arguments, one.result,
      case when one.has_no_value or one.result = 'void' then body_of_set else body end))
      where one.arguments is not null and one.result is not null;
  end loop;
  for one in
    select t.*, row_number() over () as number from (
      select distinct o.oprname, attack.of_element(format_type(nullif(o.oprleft, 0), null), e) as l,
             attack.of_element(format_type(o.oprright, null), e) as r, attack.of_element(format_type(o.oprresult, null), e) as result,
             o.oprleft = 0 as is_unary
        from pg_operator o cross join unnest(elements) e
       where o.oprnamespace = 'pg_catalog'::regnamespace and o.oprright <> 0 and strpos(ours, o.oprname) > 0) t
     where t.r is not null and t.result is not null and (t.is_unary or t.l is not null)
  loop
    perform attack.put(format('create function attack.op_%s(%s) returns %s language plpgsql as %L', one.number,
      concat_ws(', ', one.l, one.r), one.result, body));
    perform attack.put(format('create operator attack.%s (%s rightarg = %s, function = attack.op_%s)', one.oprname,
      'leftarg = ' || one.l || ',', one.r, one.number));
  end loop;
  for one in
    select unnest(array['uuid', 'text', 'jsonb', 'json', 'int4', 'int2', 'int8', 'bool', 'timestamptz', 'bytea', 'interval']) as name
  loop
    execute format('create type attack.%I as (value pg_catalog.text)', one.name);
    execute format('create function attack.cast_%s(attack.%I) returns pg_catalog.%I language plpgsql as %L',
      one.name, one.name, one.name, body);
    execute format('create cast (attack.%I as pg_catalog.%I) with function attack.cast_%s(attack.%I) as implicit',
      one.name, one.name, one.name, one.name);
    -- A variable that is declared without the schema of its type would run the check with every value.
    execute format('create function attack.check_%s(pg_catalog.%I) returns pg_catalog.bool language plpgsql as %L',
      one.name, one.name, body);
    execute format('create domain attack_domains.%I as pg_catalog.%I check (attack.check_%s(value))', one.name, one.name, one.name);
  end loop;
  -- Relations of our names, found first by whoever names one without its schema.
  for one in
    select c.relname from pg_class c
     where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p', 'v') and c.relname !~ '_[0-9]{8}'
  loop
    execute format('create temp table %I (tenant_id attack.uuid, job_id attack.uuid, id attack.uuid)', one.relname);
  end loop;
  create temp table windlass_inbox (tenant attack.uuid, job attack.uuid, lane attack.int4, max_attempts attack.int2, part attack.int4,
    payload attack.json, extra attack.jsonb);
end
$$;
