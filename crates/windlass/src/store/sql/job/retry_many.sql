-- Runs many finished jobs of one tenant once more, as windlass.retry does each, in the order of their ids. Those that
-- have not ended, or whose dedupe slot another job holds, are left as they are. Answers how many were taken back.
select count(*) filter (where (c.answer).answer in ('queued', 'blocked'))
  from (select windlass.retry($1, j.id, $3) as answer from (select id from unnest($2::uuid[]) u (id) order by id) j offset 0) c
