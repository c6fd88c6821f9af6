-- Claims jobs for several pull workers at once: as many as one claim, assigned one to a slot (workers[i],
-- lease_seconds[i], tokens[i]) in the order claimed. Each job gets its own token, because a common one would let one
-- worker write for another's job. by_worker is the dispatcher, which holds nothing after the commit. `seconds_present`
-- is how long a worker counts as present after its lease.
-- The counts may exceed the slots: lanes that have fewer jobs than requested leave slots, which are filled from the next lanes. Otherwise a
-- tenant with one job in each of many lanes would make every claim of a shared dispatcher return few jobs.
--
-- Lock order: the pull workers' rows in order (so that none is closed meanwhile), then as in claim, then the row of the
-- lease. The slots of a worker that another transaction has locked stay empty: the call serves many workers. One row at
-- a time: the insert of the block by claim must be complete before the second one.
-- Later lanes are claimed after rows of the earlier ones were locked, which is out of order for a limit: a claim waits a tenth of a second
-- for it, and then takes nothing under it (see limit_to_running).
create or replace function windlass.pull_claim(
  by_worker integer, with_token uuid, lanes integer[], after_seqs bigint[], counts integer[],
  workers integer[], lease_seconds integer[], tokens uuid[], seconds_present integer, in_epoch integer default 0)
returns table (tenant_id uuid, job_id uuid, lane integer, seq bigint, attempt integer, failures smallint, lost smallint,
  snoozes smallint, max_attempts smallint, payload json, queued_ms bigint, deadline_ms bigint, extra jsonb,
  slot integer, lease_expires_at timestamptz, times_out_at timestamptz)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $$
#variable_conflict use_column
declare
  at timestamptz := clock_timestamp();
  got record;
  locked integer[];
  slots integer[];
  capacity integer;
  used integer := 0;
  asked integer[];
  first integer;
  next integer := 1;
  steps integer := 0;
begin
  if not (windlass.is_list(lanes) and windlass.is_list(after_seqs) and windlass.is_list(counts)
      and windlass.is_list(workers) and windlass.is_list(lease_seconds) and windlass.is_list(tokens)) then
    perform windlass.raise_array();
  elsif seconds_present not between 0 and 86400 then
    perform windlass.raise_span('seconds_present', 0, 86400);
  elsif not (1 <= all (lease_seconds) and 86400 >= all (lease_seconds)) then
    perform windlass.raise_span('lease_seconds', 1, 86400);
  end if;
  perform windlass.check_read_committed();
  if not (windlass.is_full(lease_seconds, cardinality(workers)) and windlass.is_full(tokens, cardinality(workers))) then
    perform windlass.raise_list(case when windlass.is_full(tokens, cardinality(workers)) then 'lease_seconds' else 'tokens' end);
  end if;
  locked := array(
    select w.id from windlass.job_workers w where w.id = any (workers) order by w.id for no key update skip locked);
  slots := array(select u.ord::integer from unnest(workers) with ordinality u (worker, ord) where u.worker = any (locked) order by u.ord);
  while next <= cardinality(lanes) and used < cardinality(slots) and steps < 10 loop
    capacity := cardinality(slots) - used;
    asked := '{}';
    while next + cardinality(asked) <= cardinality(lanes) and capacity > 0 loop
      asked := asked || least(counts[next + cardinality(asked)], capacity);
      capacity := capacity - asked[cardinality(asked)];
    end loop;
    first := next;
    next := next + cardinality(asked);
    steps := steps + 1;
    for got in select * from windlass.claim(by_worker, with_token, lanes[first:next - 1], after_seqs[first:next - 1], asked, in_epoch,
        apart => true) loop
      used := used + 1;
      slot := slots[used];
      select least(at + d.timeout_seconds * interval '1 s', at + got.deadline_ms * interval '1 ms') into times_out_at
        from windlass.lane n join windlass.job_definitions d on d.id = n.definition_id where n.id = got.lane;
      lease_expires_at := least(at + lease_seconds[slot] * interval '1 s', times_out_at);
      update windlass.live l set token = tokens[slot], worker = workers[slot]
       where l.tenant_id = got.tenant_id and l.lane = got.lane and l.seq = got.block;
      insert into windlass.pull_lease as r (tenant_id, job_id, attempt, token, worker, lease_seconds, expires_at, times_out_at)
        values (got.tenant_id, got.job_id, got.attempt, tokens[slot], workers[slot], lease_seconds[slot], lease_expires_at, times_out_at)
        on conflict (tenant_id, job_id) do update
          set attempt = excluded.attempt, token = excluded.token, worker = excluded.worker, lease_seconds = excluded.lease_seconds,
              expires_at = excluded.expires_at, times_out_at = excluded.times_out_at;
      tenant_id := got.tenant_id; job_id := got.job_id; lane := got.lane; seq := got.seq; attempt := got.attempt;
      failures := got.failures; lost := got.lost; snoozes := got.snoozes; max_attempts := got.max_attempts; payload := got.payload;
      queued_ms := got.queued_ms; deadline_ms := got.deadline_ms; extra := got.extra;
      return next;
    end loop;
  end loop;
  if used > 0 then
    update windlass.job_workers w
       set last_seen_at = at, stopped_at = null, ended = null,
           lease_expires_at = greatest(w.lease_expires_at, at + (i.seconds + seconds_present) * interval '1 s')
      from (select workers[u.slot] as worker, max(lease_seconds[u.slot]) as seconds from unnest(slots[1:used]) u (slot) group by 1) i
     where w.id = i.worker;
  end if;
end
$$;
