-- The raw limits: each loop runs inside the server, in transactions of `batch` rows, over its part of raw.source.

create procedure raw.insert_body(first integer, last integer, batch integer, payload json)
language plpgsql as $$
begin
  for start in first..last by batch loop
    insert into raw.body (tenant_id, id, created_at, lane, source, max_attempts, line_seq, payload)
      select '00000000-0000-7000-8000-000000000001', s.id, statement_timestamp(), 1, 1, 25, s.n, payload
        from raw.source s where s.n between start and least(start + batch - 1, last);
    commit;
  end loop;
end
$$;

-- In blocks of 64 jobs, as a claim of jobs that were enqueued together.
create procedure raw.insert_live(first integer, last integer, batch integer)
language plpgsql as $$
begin
  for start in first..last by batch loop
    insert into raw.live (tenant_id, lane, seq, attempt, max_attempts, worker, token, claimed_at, ids)
      select '00000000-0000-7000-8000-000000000001', 1, min(s.n), 1, 25, 1, '00000000-0000-4000-8000-000000000001', statement_timestamp(),
             array_agg(s.id)
        from raw.source s where s.n between start and least(start + batch - 1, last) group by (s.n - start) / 64;
    commit;
  end loop;
end
$$;

-- By primary key, as settle finds the block of an attempt.
create procedure raw.delete_live(first integer, last integer, batch integer)
language plpgsql as $$
begin
  for start in first..last by batch loop
    delete from raw.live l
     where l.tenant_id = '00000000-0000-7000-8000-000000000001' and l.lane = 1 and l.seq between start and least(start + batch - 1, last);
    commit;
  end loop;
end
$$;

create procedure raw.append_attempt(first integer, last integer, batch integer)
language plpgsql as $$
begin
  for start in first..last by batch loop
    insert into raw.attempt (tenant_id, job_id, started_at, finished_at, attempt, lane, worker, outcome, job_status)
      select '00000000-0000-7000-8000-000000000001', s.id, statement_timestamp(), statement_timestamp(), 1, 1, 1, 1, 1
        from raw.source s where s.n between start and least(start + batch - 1, last);
    commit;
  end loop;
end
$$;
