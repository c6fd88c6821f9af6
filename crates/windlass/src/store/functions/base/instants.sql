-- Instants and spans at the edges. Postgres holds instants from 4713 BC to the year 294276 and both infinities; Rust and most
-- other languages end with the year 9999. The doors refuse what lies outside; the readers below never fail on it.

-- Refuses (WL007) an instant that not every reader can hold. Null passes.
create or replace function windlass.refuse_instant(field text, at timestamptz) returns void
language plpgsql immutable
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if at not between '0001-01-01 00:00:00Z' and '9999-01-01 00:00:00Z' then
    raise exception '% must lie between the years 1 and 9998', field using errcode = 'WL007', column = field;
  end if;
end
$$;

-- The same instant, or the nearest one that every reader can hold.
create or replace function windlass.shown_instant(at timestamptz) returns timestamptz
language sql immutable parallel safe
return case when at is not null then least(greatest(at, timestamptz '0001-01-01 00:00:00Z'), timestamptz '9999-01-01 00:00:00Z') end;

-- Milliseconds from one instant to another, at most 100 years either way: what is further away is treated as that far. Unlike a
-- plain difference it takes infinity, so that one row cannot stop whoever computes it for many. Stable, like the sums in it, so that
-- it is inlined.
create or replace function windlass.milliseconds_until(at timestamptz, since timestamptz) returns bigint
language sql stable parallel safe
return case when at is not null then
  (date_part('epoch', least(greatest(at, since - interval '876000 hours'), since + interval '876000 hours') - since) * 1000)::bigint end;
