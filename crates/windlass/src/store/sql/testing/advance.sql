-- Moves every instant that a job waits for into the past by $1, as if that much time had passed: start times, retry
-- delays, snoozes, deadlines, and the windows of dedupe keys. Schedules, leases and history are unchanged. Only for
-- test databases: it reads and writes whole tables, and changes bodies, which are otherwise immutable.
with moved as (
  update windlass.deferred set due_at = due_at - ($1::text)::interval where isfinite(due_at) returning 1),
blocked as (
  update windlass.blocked set scheduled_for = scheduled_for - ($1::text)::interval where isfinite(scheduled_for)),
expired as (
  update windlass.expiry set expires_at = expires_at - ($1::text)::interval where isfinite(expires_at)),
bodies as (
  update windlass.job
     set scheduled_for = scheduled_for - ($1::text)::interval, deadline = deadline - ($1::text)::interval,
       start_by = start_by - ($1::text)::interval
   where scheduled_for is not null or deadline is not null or start_by is not null),
keys as (
  update windlass.dedupe set until = until - ($1::text)::interval where isfinite(until))
select count(*) from moved
