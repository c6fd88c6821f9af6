-- The next number for a lane and for a worker. Sequences are not transactional: a transaction that is rolled back uses a number up, so
-- a login that repeats it could reach the last of the 32-bit numbers within weeks. After the last one they start again, and numbers that
-- are in use are skipped. A number that was free is used by no other transaction, because the sequence gives each number to one.
-- Index: lane_by_id, job_workers's primary key.
create or replace function windlass.next_lane() returns integer
language plpgsql
as $$
declare
  number integer;
begin
  loop
    number := nextval('windlass.lane_id_seq');
    if not exists (select from windlass.lane l where l.id = number) then
      return number;
    end if;
  end loop;
end
$$;

create or replace function windlass.next_worker() returns integer
language plpgsql
as $$
declare
  number integer;
begin
  loop
    number := nextval('windlass.job_workers_id_seq');
    if not exists (select from windlass.job_workers w where w.id = number) then
      return number;
    end if;
  end loop;
end
$$;
