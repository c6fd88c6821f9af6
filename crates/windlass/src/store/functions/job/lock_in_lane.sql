-- Locks the next rows of a lane until they contain `most` jobs, skipping locked rows. Returns the number of jobs in them,
-- at most `most`. A cursor, because its loop fetches one row at a time: any other loop would lock rows in advance.
-- Index: line's primary key.
create or replace function windlass.lock_in_lane(of_lane integer, after_seq bigint, most integer) returns integer
language plpgsql
as $$
#variable_conflict use_column
declare
  next cursor for select cardinality(l.ids) as holds from windlass.line l
    where l.lane = of_lane and l.seq > after_seq order by l.seq for update skip locked;
  jobs integer := 0;
begin
  for one in next loop
    jobs := jobs + one.holds;
    exit when jobs >= most;
  end loop;
  return least(jobs, most);
end
$$;
