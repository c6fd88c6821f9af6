-- What happens to a job when an attempt ends, as the details of a settlement: for callers that have no process of ours, which are
-- SQL workers (end_taken) and tick. The twin of `settle` in model/job/settle.rs, which decides for all others; the test
-- the_rule_in_sql_is_the_rule_in_rust compares both over all policies and outcomes (decision 0024).
--
-- ended: the name of an outcome. again: of a failed attempt, `policy`, `permanent` or `after`. delay_ms: of a snooze, or of a retry
-- `after` it. failures, lost, snoozes: before this attempt. remaining_ms: until the job's deadline. random: in [0, 1).
-- Total: no policy and no number prevents a job from ending.
create or replace function windlass.settlement(
  ended text, again text, delay_ms numeric, failures integer, lost integer, snoozes integer, max_attempts integer, max_lost integer,
  max_snoozes integer, backoff jsonb, on_timeout text, on_lost text, is_canceled boolean, remaining_ms bigint, random double precision)
returns jsonb
language plpgsql immutable
as $$
declare
  longest constant numeric := 366 * 86400000::numeric; -- milliseconds
  counts constant boolean := ended in ('failed', 'timeout', 'lost');
  is_last constant boolean := failures + 1 >= max_attempts;
  next text;
  reason text;
  delay numeric;
begin
  if ended = 'lost' then
    lost := least(lost + 1, 32767);
  end if;
  if ended = 'succeeded' then
    next := 'succeeded';
  elsif ended = 'released' then
    next := 'queued';
  elsif ended = 'canceled' then
    next := 'canceled';
    reason := 'cancel_requested';
  elsif ended = 'snoozed' and snoozes >= max_snoozes then
    next := 'failed';
    reason := 'snooze_budget';
  elsif ended = 'snoozed' then
    snoozes := snoozes + 1;
    delay := delay_ms;
  elsif ended = 'failed' and again = 'permanent' then
    next := 'failed';
    reason := 'permanent';
  elsif ended = 'timeout' and on_timeout = 'fail' then
    next := 'failed';
    reason := 'timeout';
  elsif ended = 'lost' and lost >= max_lost then
    next := 'dead_letter';
    reason := 'poison';
  elsif is_last then
    next := 'dead_letter';
    reason := 'attempts_exhausted';
  elsif ended = 'lost' and on_lost = 'fail' then
    next := 'failed';
    reason := 'lost';
  elsif ended = 'lost' then
    delay := 5000 * windlass.unit(random)::numeric;
  elsif ended = 'failed' and again = 'after' then
    delay := delay_ms;
  else
    delay := windlass.backoff_ms(backoff, failures, random);
  end if;
  if next is null then
    delay := least(greatest(coalesce(delay, 0), 0), longest);
    if remaining_ms is null or delay < greatest(remaining_ms, 0) then
      next := 'scheduled';
    else
      next := case ended when 'snoozed' then 'failed' else 'dead_letter' end;
      reason := 'deadline_passed';
    end if;
  end if;
  if is_canceled then
    ended := case ended when 'lost' then 'lost' else 'canceled' end;
    next := 'canceled';
    reason := 'cancel_requested';
  end if;
  return jsonb_strip_nulls(jsonb_build_object('outcome', windlass.outcome_code(ended), 'next', windlass.state_code(next),
    'delay_ms', case next when 'scheduled' then trunc(delay)::bigint end,
    'failures', least(failures + counts::integer, 32767), 'lost', lost, 'snoozes', least(snoozes, 32767), 'reason', reason));
end
$$;

-- The delay of a retry in milliseconds: the twin of `Backoff::delay` in model/job/backoff.rs, whose comments explain it. An invalid
-- backoff, which only an old row can have, is replaced by the default. Numbers are rounded before the conversion, which fails for
-- those that are too close to zero; a power and a product fail if they are too large.
create or replace function windlass.backoff_ms(backoff jsonb, failures integer, random double precision) returns numeric
language plpgsql immutable
as $$
declare
  given constant jsonb := (windlass.default_policies() -> 'backoff')
    || case when backoff is not null and windlass.backoff_problem(backoff) is null then backoff else '{}' end;
  base constant double precision := round((given -> 'base_seconds')::numeric, 20);
  factor constant double precision := round((given -> 'factor')::numeric, 20);
  cap constant double precision := least(round((given -> 'cap_seconds')::numeric, 20), 31622400);
  jitter constant double precision := round((given -> 'jitter')::numeric, 20);
  n constant integer := greatest(failures, 0);
  growth double precision;
  middle double precision;
  spread double precision;
begin
  growth := case given ->> 'kind'
    when 'exponential' then case when n * ln(factor) > 709.78 then 'Infinity' else power(factor, n) end
    when 'linear' then n + 1
    else 1 end;
  middle := least(case when growth > 1e300 and base > 1 then 'Infinity' else base * growth end, cap); -- NaN is the largest number
  spread := middle * (1 + jitter * (2 * windlass.unit(random) - 1));
  return round((least(greatest(case when spread > cap then 2 * cap - spread else spread end, 0), cap) * 1000)::numeric, 6);
end
$$;

-- The random number, or the middle if it is not in [0, 1).
create or replace function windlass.unit(random double precision) returns double precision
language sql immutable parallel safe
return case when random >= 0 and random < 1 then random else 0.5 end;
