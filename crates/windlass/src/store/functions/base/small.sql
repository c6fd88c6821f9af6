-- A promise of durability is not the caller's to switch off: `synchronous_commit = off` lost acknowledged jobs
-- on a kill -9 of the server. Raised for this transaction only, and only if it was off.
create or replace function windlass.stay_durable() returns void
language plpgsql
as $$
begin
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'on', true);
  end if;
end
$$;

-- Wakes waiting workers and tells them the lane, or with null to look at all of them. Polling is the guarantee, this only the speed-up: an enqueuer
-- that looked before a worker wrote its row is found by that worker's next poll.
create or replace function windlass.ring(lane integer) returns void
language plpgsql
as $$
begin
  if pg_sequence_last_value('windlass.workers_wait'::regclass) > 0 then
    perform pg_notify('windlass', coalesce(lane::text, 'all'));
  end if;
end
$$;
