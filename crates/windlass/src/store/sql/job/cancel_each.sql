-- Cancels many jobs of one tenant as windlass.cancel does each, and says of each what came of it; in the order of their ids, in
-- which settlements lock too.
select c.id, c.answer
  from (select j.id, windlass.cancel($1, j.id) as answer from (select distinct id from unnest($2::uuid[]) u (id) order by id) j offset 0) c
