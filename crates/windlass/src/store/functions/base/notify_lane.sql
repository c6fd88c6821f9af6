-- Wakes waiting workers and sends them the lane; null means all lanes. Correctness depends on polling; this only
-- reduces latency: an enqueue that checked before a worker wrote its row is found by that worker's next poll.
create or replace function windlass.notify_lane(lane integer) returns void
language plpgsql
as $$
begin
  if pg_sequence_last_value('windlass.workers_wait'::regclass) > 0 then
    perform pg_notify('windlass', coalesce(lane::text, 'all'));
  end if;
end
$$;
