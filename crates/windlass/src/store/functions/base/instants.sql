-- Limits of instants and intervals. Postgres has instants from 4713 BC to the year 294276 and both infinities; Rust and
-- most other languages end at the year 9999. The functions that accept instants refuse others; the functions that read
-- them never fail.

-- Refuses (WL007) an instant that not every client can represent. Accepts null.
create or replace function windlass.check_instant(field text, at timestamptz) returns void
language plpgsql immutable
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if at not between '0001-01-01 00:00:00Z' and '9999-01-01 00:00:00Z' then
    raise exception '% must be between the years 1 and 9998', field using errcode = 'WL007', column = field;
  end if;
end
$$;

-- Refuses (WL007) a lease or another duration of a caller. A function that takes one compares it with its limits first: what
-- a caller leaves behind must end soon after the caller. Not a function that compares and refuses, see raise_array.
-- The test a_duration_without_end_is_refused_by_every_function calls each function with each of them.
create or replace function windlass.raise_span(field text, lowest bigint, highest bigint) returns void
language plpgsql
as $$
begin
  raise exception '% must be between % and %', field, lowest, highest using errcode = 'WL007', column = field;
end
$$;

-- The instant, or the nearest one that every client can represent.
create or replace function windlass.shown_instant(at timestamptz) returns timestamptz
language sql immutable parallel safe
return case when at is not null then least(greatest(at, timestamptz '0001-01-01 00:00:00Z'), timestamptz '9999-01-01 00:00:00Z') end;

-- Milliseconds from one instant to another, clamped to 100 years in either direction. Unlike a subtraction it accepts
-- infinity, so one row cannot fail a statement over many. Stable, like the expressions in it, so that it is inlined.
create or replace function windlass.milliseconds_until(at timestamptz, since timestamptz) returns bigint
language sql stable parallel safe
return case when at is not null then
  (date_part('epoch', least(greatest(at, since - interval '876000 hours'), since + interval '876000 hours') - since) * 1000)::bigint end;
