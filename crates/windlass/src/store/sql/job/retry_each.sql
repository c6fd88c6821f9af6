-- Runs many finished jobs of one tenant once more and says of each what came of it; in the order of their ids. The transaction
-- writes one audit row for all of them.
select c.id, (c.answer).answer
  from (select j.id, windlass.retry_unaudited($1, j.id) as answer from (select distinct id from unnest($2::uuid[]) u (id) order by id) j offset 0) c
