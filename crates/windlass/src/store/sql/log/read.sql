-- The output of a job after a position ($3 attempt, $4 chunk), at most $5 chunks, in order. For an attempt that has
-- ended without chunks, its tails are returned. Index: job_log_pkey, history_pkey.
select c.attempt, c.chunk, c.stream, c.at, c.text
  from ((select o.attempt, o.chunk, o.stream, o.at, o.text from windlass.job_log o
          where o.tenant_id = $1 and o.job_id = $2 and (o.attempt, o.chunk) > ($3, $4)
          order by o.attempt, o.chunk limit $5)
        union all
        (select h.attempt, t.chunk, t.stream, h.finished_at, t.text
           from windlass.history h
          cross join lateral (values (1, 1::smallint, h.stdout_tail), (2, 2::smallint, h.stderr_tail)) t (chunk, stream, text)
          where h.tenant_id = $1 and h.job_id = $2 and h.attempt > 0 and (h.attempt, t.chunk) > ($3, $4) and t.text <> ''
            and not exists (select from windlass.job_log o
                             where o.tenant_id = h.tenant_id and o.job_id = h.job_id and o.attempt = h.attempt)
          order by h.attempt, t.chunk limit $5)) c
 order by c.attempt, c.chunk
 limit $5
