-- Deletes finished jobs that are past their retention, a batch at a time. Each rule remembers how far it has come, so
-- history is read once per rule and a crash resumes where it was. What is under legal hold is passed over (releasing
-- the hold begins anew), and what has an artifact to be removed first waits for that. The rule that was looked at longest ago
-- goes first, so that a long backlog of one does not hold up the others. Returns how many jobs were dealt with.
-- Index: the BRIN on finished_at, which knows no order. So a rule looks at a span of time that is sized after what the last
-- one held: without that, every batch would read and sort all that is still to go. A full one says how much time a batch takes,
-- so at most one reads too much. A new rule begins at the oldest row, or, where
-- finding that would mean to read a long history, where the oldest partition does: nothing ends before it was enqueued.
create or replace function windlass.prune(most integer) returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  rule record;
  batch record;
  has_holds boolean := exists (select from windlass.legal_hold);
  oldest timestamptz;
  since timestamptz;
  upto timestamptz;
  step interval;
  waiting uuid[];
  seen integer := 0;
  room integer;
  gone integer;
  is_full boolean := false;
begin
  if not pg_try_advisory_xact_lock(hashtext('windlass.prune')) then
    return 0;
  end if;
  for rule in
    select r.duty, r.tenant_id, r.definition_id, r.definition_key, r.status as status_name, windlass.state_code(r.status) as status,
           clock_timestamp() - r.keep as cutoff, nullif(m.reached, '-infinity') as reached, coalesce(m.span, interval '1 minute') as span
      from windlass.retention_rules() r left join windlass.keeper_mark m on m.duty = r.duty
     order by m.updated_at nulls first, r.duty
  loop
    if rule.reached is null and oldest is null then
      select case when sum(pg_relation_size(c.oid)) < 64 * 1024 * 1024 then (select min(h.finished_at) from windlass.history h)
             else least(min(to_date(substring(c.relname from '[0-9]{4}_w[0-9]{2}$'), 'IYYY"_w"IW')::timestamp at time zone 'UTC') - interval '1 day',
                        (select min(h.finished_at) from windlass.history_default h)) end
        into oldest from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'windlass.history'::regclass;
      oldest := least(oldest, clock_timestamp());
    end if;
    since := least(coalesce(rule.reached, oldest), rule.cutoff);
    step := rule.span;
    gone := 0;
    while since < rule.cutoff and not is_full loop
      upto := least(since + step, rule.cutoff);
      room := most - seen;
      for batch in
        with old as materialized (
          select h.tenant_id, h.job_id, h.finished_at from windlass.history h
           where h.finished_at >= since and h.finished_at < upto and h.job_status = rule.status
             and h.lane in (
               select l.id from windlass.lane l
                where l.definition_id = rule.definition_id
                  and case when rule.tenant_id is not null then l.tenant_id = rule.tenant_id
                      else not exists (select from windlass.retention o where o.tenant_id = l.tenant_id and o.status = rule.status_name
                                          and o.definition_key in (rule.definition_key, '*')) end)
             and not exists (select from windlass.purge_wait w where w.tenant_id = h.tenant_id and w.job_id = h.job_id)
             and (not has_holds or h.job_id <> all (windlass.held_jobs(h.tenant_id, array[h.job_id])))
           order by h.finished_at limit room
           for update skip locked) -- an operator may be retrying one of them
        select o.tenant_id, array_agg(o.job_id) as jobs, max(max(o.finished_at)) over () as reached, sum(count(*)) over () as found
          from old o group by o.tenant_id
      loop
        is_full := batch.found >= room;
        upto := case when is_full then batch.reached else upto end;
        seen := seen + cardinality(batch.jobs);
        waiting := windlass.clean_up_first(batch.tenant_id, batch.jobs);
        gone := gone + windlass.purge(batch.tenant_id, array(select j from unnest(batch.jobs) j where j <> all (waiting)), true);
      end loop;
      step := case when is_full then greatest((upto - since) * 2, interval '1 ms') else least(step * 2, interval '6 hours') end;
      since := upto;
    end loop;
    -- A settlement that commits after us may bear a time from just before it, so the mark stays a minute behind.
    insert into windlass.keeper_mark as m (duty, reached, moved, span)
      values (rule.duty, least(since, clock_timestamp() - interval '1 minute'), gone, step)
      on conflict (duty) do update set reached = greatest(m.reached, excluded.reached), moved = m.moved + excluded.moved, span = excluded.span,
        updated_at = clock_timestamp();
    exit when is_full;
  end loop;
  seen := seen + windlass.finish_clean_ups(most);
  delete from windlass.idempotency i where i.created_at < clock_timestamp() - interval '7 days';
  delete from windlass.request_keys k where k.created_at < clock_timestamp() - interval '7 days';
  delete from windlass.dedupe d where d.until < clock_timestamp() - interval '1 day';
  delete from windlass.job_workers w where w.stopped_at < clock_timestamp() - interval '90 days';
  return seen;
end
$$;

-- Tells the indexes on times by which things are pruned of the pages written since the last vacuum: what they do not know, a
-- scan reads every time. Gives up at once where a vacuum is at work, which does the same. In a transaction of its own, because its lock would
-- keep a vacuum away until the end. Answers how many ranges of pages it took in.
create or replace function windlass.summarize_times() returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '50ms'
as $$
declare
  part record;
  taken_in integer := 0;
begin
  for part in
    select i.inhrelid as index from pg_inherits i where i.inhparent = 'windlass.history_by_time'::regclass
    union all select 'windlass.fire_by_time'::regclass
  loop
    begin
      taken_in := taken_in + brin_summarize_new_values(part.index);
    exception when lock_not_available then
      null;
    end;
  end loop;
  return taken_in;
end
$$;
