-- Runs many finished jobs of one tenant once more as windlass.retry does each, and says of each what came of it; in the order
-- of their ids.
select c.id, (c.answer).answer
  from (select j.id, windlass.retry($1, j.id, $3) as answer from (select distinct id from unnest($2::uuid[]) u (id) order by id) j offset 0) c
