-- Copies of the tables that a job passes through: the same columns, defaults, checks, keys, indexes and storage settings,
-- but not partitioned and without row-level security, so that only the cost of Postgres itself is measured.
create schema raw;
create table raw.body (like windlass.job including all);
create table raw.live (like windlass.live including all);
create table raw.attempt (like windlass.history including all);

-- `like` copies everything but the settings of the table itself.
do $$
declare
  original record;
begin
  for original in
    select c.relname as name, array_to_string(c.reloptions, ', ') as settings
      from pg_class c join pg_namespace s on s.oid = c.relnamespace
     where s.nspname = 'windlass' and c.relname in ('live') and c.reloptions is not null
  loop
    execute format('alter table raw.%I set (%s)', original.name, original.settings);
  end loop;
end
$$;

-- A version 7 UUID of that millisecond.
create function raw.id_at(ms bigint) returns uuid
language sql volatile
return overlay(gen_random_uuid()::text placing
  substr(lpad(to_hex(ms), 12, '0'), 1, 8) || '-' || substr(lpad(to_hex(ms), 12, '0'), 9, 4) || '-7' from 1 for 15)::uuid;

-- The ids are generated in advance, because generating one costs more than inserting it. About 400 share a millisecond, as
-- with a fast enqueuer.
create unlogged table raw.source (n integer primary key, id uuid not null);
