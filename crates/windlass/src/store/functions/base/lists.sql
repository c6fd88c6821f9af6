-- Arrays from callers are lists: of one dimension, counted from 1. Others are refused by every function that applications,
-- operators and our processes call (WL007), before it reads them: positions and slices of such an array are shifted, so
-- that a limit or an option would apply to another element, or to none.
-- The test an_array_that_is_no_list_is_refused_by_every_function calls each function with each of its arrays.

-- Whether an array is a list. Null and the empty array are. In plain SQL, so that it becomes part of the expression.
create or replace function windlass.is_list(given anyarray) returns boolean
language sql immutable parallel safe
as $$
  select coalesce(pg_catalog.array_ndims(given) operator(pg_catalog.=) 1
    and pg_catalog.array_lower(given, 1) operator(pg_catalog.=) 1, true)
$$;

-- Whether an array is a list of short texts, as names of queues and definitions are.
create or replace function windlass.is_list_of_names(given text[]) returns boolean
language sql immutable parallel safe
as $$
  select windlass.is_list(given) and not exists (
    select from pg_catalog.unnest(given) g (name) where g.name is null or pg_catalog.octet_length(g.name) operator(pg_catalog.>) 500)
$$;

-- Not a function that checks and refuses: a call costs several times as much as the expression. Functions that people call
-- name the array.
create or replace function windlass.raise_array(field text default '') returns void
language plpgsql
as $$
begin
  raise exception '% must be one-dimensional, with the lower bound 1', coalesce(nullif(field, ''), 'an array')
    using errcode = 'WL007', column = field;
end
$$;
