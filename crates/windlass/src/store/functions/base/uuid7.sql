-- A UUIDv7: 48 bits of milliseconds, then random bits. PostgreSQL 15 has no built-in generator. Only uniqueness and
-- rough locality depend on it, not order.
create or replace function windlass.uuid7() returns uuid
language sql volatile parallel safe
return encode(
  set_bit(set_bit(
    overlay(uuid_send(gen_random_uuid())
      placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
    52, 1), 53, 1), 'hex')::uuid;

-- The smallest UUIDv7 of an instant: a bound of partitions and of events. The 48 bits have no room for an instant before
-- 1970 or after 10889. The first or the last one is used instead: an interval of a hundred years before now must not wrap
-- around to the future.
create or replace function windlass.uuid7_floor(at timestamptz) returns uuid
language sql immutable parallel safe
return encode(substring(int8send(least(greatest(extract(epoch from at) * 1000, 0), 281474976710655)::bigint) from 3)
  || E'\\x00000000000000000000', 'hex')::uuid;

-- The instant in a UUIDv7, or in a partition bound.
create or replace function windlass.uuid7_instant(id uuid) returns timestamptz
language sql immutable parallel safe
return to_timestamp(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0);
