-- The positions of a block of running jobs: bit `position` of `ended` is set when the attempt at that position has ended.
-- Trap: no `set` and not SECURITY DEFINER, so that the planner inlines them.
create or replace function windlass.all_bits(ids uuid[]) returns bigint
language sql immutable parallel safe
return case cardinality(ids) when 64 then -1::bigint else ~(-1::bigint << cardinality(ids)) end;

create or replace function windlass.runs_at(ended bigint, at_position integer) returns boolean
language sql immutable parallel safe
return (ended >> at_position) & 1 = 0;

create or replace function windlass.running_in(ids uuid[], ended bigint) returns bigint
language sql immutable parallel safe
return cardinality(ids) - bit_count(ended::bit(64));

-- The jobs of a block that are running, with their positions.
create or replace function windlass.running_of(ids uuid[], ended bigint) returns table (job_id uuid, at_position smallint)
language sql immutable parallel safe
as $$
  select i.id, (i.ord - 1)::smallint from unnest(ids) with ordinality i (id, ord) where windlass.runs_at(ended, i.ord::integer - 1)
$$;
