-- Rules for the arguments of callers: without them, Postgres would refuse what a table cannot store, with the name of a column and
-- not of an argument. Lists and durations have rules of their own (see is_list, raise_span).
-- The test every_function_names_the_argument_that_it_refuses calls each function with each of them.

-- Refuses (WL007) an argument without a value. Functions that are called for every job compare first.
create or replace function windlass.raise_null(field text) returns void
language plpgsql
as $$
begin
  raise exception '% must not be null', field using errcode = 'WL007', column = field;
end
$$;

-- Refuses (WL007) the first of these arguments that is null, or a JSON null.
create or replace function windlass.check_not_null(given jsonb) returns void
language plpgsql immutable
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  field text;
begin
  select a.key into field from jsonb_each(given) a where a.value = 'null' limit 1;
  if found then
    perform windlass.raise_null(field);
  end if;
end
$$;

-- Refuses (WL007) the first of these texts that is null, or has fewer or more bytes: lists show all of it, page by page.
create or replace function windlass.check_texts(given jsonb, shortest integer, longest integer) returns void
language plpgsql immutable
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  field text;
begin
  select a.key into field from jsonb_each_text(given) a where a.value is null
    or octet_length(a.value) not between shortest and longest limit 1;
  if found then
    raise exception '% must be a text of % to % bytes', field, shortest, longest using errcode = 'WL007', column = field;
  end if;
end
$$;

-- Whether a list has this many elements, and no null. In plain SQL, so that it becomes part of the expression.
create or replace function windlass.is_full(given anyarray, elements integer) returns boolean
language sql immutable parallel safe
as $$
  select pg_catalog.cardinality(given) is not distinct from elements and pg_catalog.array_position(given, null) is null
$$;

-- Refuses (WL007) a list that is not full.
create or replace function windlass.raise_list(field text) returns void
language plpgsql
as $$
begin
  raise exception '% must have as many elements as the other lists, and no null', field using errcode = 'WL007', column = field;
end
$$;

-- Refuses (WL018) a value that must be unique and is in use. The constraint says of what, as in a refusal by Postgres.
create or replace function windlass.raise_used(field text, by_constraint text) returns void
language plpgsql
as $$
begin
  raise exception '% is already in use', field using errcode = 'WL018', column = field, constraint = by_constraint;
end
$$;
