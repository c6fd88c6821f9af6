-- Cancels many jobs of one tenant as windlass.cancel does each; in the order of their ids, in which settlements lock too.
-- Answers how many are canceled or asked to stop.
select count(*) filter (where c.answer in ('canceled', 'requested'))
  from (select windlass.cancel($1, j.id) as answer from (select id from unnest($2::uuid[]) u (id) order by id) j offset 0) c
