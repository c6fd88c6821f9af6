-- Sums the jobs that ended since the last round, per slot, tenant and queue, and records the depth of each queue. One
-- sampler at a time. Returns the number of rows written.
-- The default of slot_seconds is the finest step of a chart.
-- Index: history_by_time, so it reads only what ended since the last round.
-- Trap: the counters have no condition and are read whole. With enable_seqscan off such a plan costs so much that the planner sees no
-- difference between its joins, and compared every counter with every lane: a minute for 10,000 tenants (windlass-bench cliffs). So the
-- lane of each is looked up by its key.
-- Trap: a settlement stamps its rows before it commits. The newest two seconds are left for the next round, so that a
-- slow commit is still counted; an even slower one is missing from the chart only.
-- A queue whose counters are out of range is skipped and recorded in `problem`: the sum of all tenants must fit its
-- column.
create or replace function windlass.sample_activity(slot_seconds integer default 15) returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  slot constant interval := make_interval(secs => slot_seconds);
  epoch constant timestamptz := 'epoch';
  most constant bigint := 1000000000000000;
  upto timestamptz;
  since timestamptz;
  written integer;
begin
  if coalesce(slot_seconds not between 1 and 3600, true) then
    perform windlass.raise_span('slot_seconds', 1, 3600);
  end if;
  upto := date_bin(slot, clock_timestamp() - interval '2 seconds', epoch);
  if exists (select from windlass.keeper_mark m where m.duty = 'activity' and m.reached >= upto) or not windlass.try_gate('sample') then
    return 0;
  end if;
  select greatest(m.reached, upto - interval '10 minutes') into since from windlass.keeper_mark m where m.duty = 'activity';
  since := coalesce(since, upto - slot);
  if since >= upto then
    return 0;
  end if;
  with ended as (
    select n.tenant_id, n.queue, date_bin(slot, h.finished_at, epoch) as at,
           count(*) filter (where h.outcome = windlass.outcome_code('succeeded')) as succeeded,
           count(*) filter (where h.outcome in (windlass.outcome_code('failed'), windlass.outcome_code('timeout'),
             windlass.outcome_code('lost'))) as failed,
           0 as queued, 0 as running
      from windlass.history h join windlass.lane n on n.tenant_id = h.tenant_id and n.id = h.lane
     where h.finished_at >= since and h.finished_at < upto
     group by 1, 2, 3),
  depth as (
    select c.tenant_id, n.queue, upto - slot as at, 0 as succeeded, 0 as failed, sum(c.queued) as queued, sum(c.running) as running
      from (select t.tenant_id, t.lane, t.queued::bigint, t.running::bigint from windlass.total t
            union all
            select y.tenant_id, y.lane, y.queued, y.running from windlass.tally y) c
     cross join lateral (
        select l.queue from windlass.lane l where l.tenant_id = c.tenant_id and l.id = c.lane offset 0) n
     group by 1, 2
    having sum(c.queued) between -most and most and sum(c.running) between -most and most),
  sums as (
    select s.tenant_id, s.queue, s.at, sum(s.succeeded) as succeeded, sum(s.failed) as failed, sum(s.queued) as queued,
           sum(s.running) as running
      from (select * from ended union all select * from depth) s
     group by 1, 2, 3
    having sum(s.succeeded) + sum(s.failed) + sum(s.queued) + sum(s.running) > 0)
  insert into windlass.activity (tenant_id, queue, at, succeeded, failed, queued, running)
    select * from sums
    union all
    select '00000000-0000-0000-0000-000000000000', s.queue, s.at, sum(s.succeeded), sum(s.failed), sum(s.queued), sum(s.running)
      from sums s group by s.queue, s.at
    on conflict (tenant_id, queue, at) do nothing;
  get diagnostics written = row_count;
  perform windlass.note_problem('sample', n.tenant_id, n.queue, 'the counters of this queue are out of range and cannot be charted')
    from windlass.total t join windlass.lane n on n.tenant_id = t.tenant_id and n.id = t.lane
   where t.queued not between -most and most or t.running not between -most and most;
  insert into windlass.keeper_mark (duty, reached) values ('activity', upto)
    on conflict (duty) do update set reached = excluded.reached, updated_at = now();
  delete from windlass.activity a where a.at < upto - interval '25 hours';
  return written;
end
$$;
