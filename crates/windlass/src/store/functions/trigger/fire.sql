-- Applies the decisions of the scheduler, one transaction for a batch: each trigger's next_due_at advances if the
-- trigger still has that generation and instant (else another keeper was faster, or it was edited, and nothing is done
-- for it), together with the rows of its instants and their jobs. ords: the trigger of each instant. reasons: null
-- fires. lanes: null for a job with guards (overlap, jitter, a start deadline), which is enqueued by windlass.enqueue.
-- A trigger that another transaction has locked is left for the next round, and so is one whose job would have to wait
-- for an open transaction of its tenant (the quota, a key, the first use of a lane): an open transaction must not stop
-- the schedules of others.
-- Lock order: triggers by key. The primary key of fire is the last guard: one instant is one row.
create or replace function windlass.fire_triggers(
  tenants uuid[], triggers uuid[], generations integer[], expected timestamptz[], next_dues timestamptz[],
  ords integer[], dues timestamptz[], reasons text[], jobs uuid[], lanes integer[], attempts smallint[], keys text[],
  payloads jsonb[], delays double precision[],
  out fired integer, out skipped integer)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '200ms'
as $$
#variable_conflict use_column
declare
  locked constant text := 'another transaction holds a lock that its job needs: ';
  part record;
  made record;
  waits integer;
begin
  if not (windlass.is_list(tenants) and windlass.is_list(triggers) and windlass.is_list(generations)
      and windlass.is_list(expected) and windlass.is_list(next_dues) and windlass.is_list(ords) and windlass.is_list(dues)
      and windlass.is_list(reasons) and windlass.is_list(jobs) and windlass.is_list(lanes) and windlass.is_list(attempts)
      and windlass.is_list(keys) and windlass.is_list(payloads) and windlass.is_list(delays)) then
    perform windlass.raise_array();
  end if;
  perform windlass.check_read_committed(); -- overlap: see run_trigger
  perform windlass.tenants_for(tenants);
  if not windlass.is_full(dues, cardinality(ords)) then
    perform windlass.raise_list('dues');
  end if;
  perform windlass.stay_durable();
  -- Routes are cached for some seconds. The plain insert would refuse the whole batch for a tenant that was suspended or
  -- got a quota since; fire_one records a refusal for its own instant.
  lanes := array(
    select case when exists (select from windlass.tenants t where t.id = tenants[i.ord] and t.status = 'active' and t.max_queued is null)
             then i.lane end
      from unnest(ords, lanes) with ordinality i (ord, lane, position) order by i.position);
  begin
    select f.* into fired, skipped from windlass.fire_these(tenants, triggers, generations, expected, next_dues, ords, dues, reasons, jobs,
      lanes, attempts, keys, payloads, delays, null) f;
    return;
  exception when lock_not_available then
    fired := 0;
    skipped := 0;
  end;
  for part in select n.tenant, array_agg(n.ord::integer) as ords from unnest(tenants) with ordinality n (tenant, ord) group by n.tenant loop
    begin
      select f.* into made from windlass.fire_these(tenants, triggers, generations, expected, next_dues, ords, dues, reasons, jobs,
        lanes, attempts, keys, payloads, delays, part.ords) f;
      fired := fired + made.fired;
      skipped := skipped + made.skipped;
      continue;
    exception when lock_not_available then
      waits := 0;
    end;
    for i in 1 .. cardinality(part.ords) loop
      begin
        select f.* into made from windlass.fire_these(tenants, triggers, generations, expected, next_dues, ords, dues, reasons, jobs,
          lanes, attempts, keys, payloads, delays, part.ords[i:i]) f;
        fired := fired + made.fired;
        skipped := skipped + made.skipped;
      exception when lock_not_available then
        waits := waits + 1;
        perform windlass.note_locked('schedule', part.tenant, triggers[part.ords[i]]::text, locked || sqlerrm);
      end;
      if waits = 3 then
        -- Delay all schedules of the tenant: each would wait equally long, and a round has time for only a few.
        perform windlass.note_locked('schedule', part.tenant, part.tenant::text, locked || 'too many schedules of the tenant are waiting');
        exit;
      end if;
    end loop;
  end loop;
end
$$;

-- The same for those triggers of the batch that only_ords lists (null: all). Fails completely if one of them has to
-- wait too long.
create or replace function windlass.fire_these(
  tenants uuid[], triggers uuid[], generations integer[], expected timestamptz[], next_dues timestamptz[],
  ords integer[], dues timestamptz[], reasons text[], jobs uuid[], lanes integer[], attempts smallint[], keys text[],
  payloads jsonb[], delays double precision[], only_ords integer[],
  out fired integer, out skipped integer)
language plpgsql
as $$
#variable_conflict use_column
declare
  locked bigint[];
  won integer[];
  plain uuid[];
  item record;
begin
  locked := array(
    select n.ord from windlass.job_triggers t join unnest(tenants, triggers) with ordinality n (tenant, id, ord) on t.tenant_id = n.tenant
           and t.id = n.id
     where only_ords is null or n.ord = any (only_ords)
     order by t.tenant_id, t.id for no key update of t skip locked);
  with moved as (
    update windlass.job_triggers t set next_due_at = n.next_due
      from unnest(tenants, triggers, generations, expected, next_dues) with ordinality n (tenant, id, generation, due, next_due, ord)
     where t.tenant_id = n.tenant and t.id = n.id and t.generation = n.generation and t.next_due_at = n.due and n.ord = any (locked)
    returning n.ord)
  select coalesce(array_agg(m.ord), '{}') into won from moved m;
  perform windlass.clear_problem('schedule', array_agg(tenants[o.ord]), array_agg(s.subject), clock_timestamp())
     from unnest(won) o (ord) cross join lateral unnest(array[triggers[o.ord], tenants[o.ord]]) s (subject);

  with decided as (
    insert into windlass.fire (tenant_id, trigger_id, due_at, generation, outcome, reason, job_id)
      select tenants[i.ord], triggers[i.ord], i.due, generations[i.ord], case when i.reason is null then 'fired' else 'skipped' end,
             i.reason, case when i.reason is null then i.job end
        from unnest(ords, dues, reasons, jobs, lanes) i (ord, due, reason, job, lane)
       where i.ord = any (won) and (i.reason is not null or i.lane is not null)
      on conflict do nothing
    returning job_id)
  select count(d.job_id), count(*) - count(d.job_id), array_agg(d.job_id) filter (where d.job_id is not null)
    into fired, skipped, plain from decided d;
  if plain is not null then
    -- They share rows of the line: at most 64 of one lane with the same number of attempts.
    perform windlass.enqueue_routed_many(array_agg(tenants[p.ord]), array_agg(p.job), array_agg(p.lane), array_agg(p.attempts),
        array_agg(p.part), array_agg(p.payload::json), array_agg(jsonb_build_object('source', 'schedule', 'source_ref', triggers[p.ord])))
      from (select c.*, dense_rank() over (order by c.lane, c.attempts, c.chunk)::integer as part
              from (select i.*, (row_number() over (partition by i.lane, i.attempts) - 1) / 64 as chunk
                      from unnest(ords, jobs, lanes, attempts, payloads) i (ord, job, lane, attempts, payload)
                     where i.job = any (plain)) c) p;
  end if;

  for item in
    select i.* from unnest(ords, dues, reasons, jobs, lanes, keys, payloads, delays)
        i (ord, due, reason, job, lane, key, payload, delay)
     where i.ord = any (won) and i.reason is null and i.lane is null order by tenants[i.ord], triggers[i.ord], i.due
  loop
    case (select f.outcome from windlass.fire_one(tenants[item.ord], triggers[item.ord], generations[item.ord], 'schedule', item.due,
            item.job, item.key, item.payload, item.delay) f)
      when 'fired' then fired := fired + 1;
      when 'skipped' then skipped := skipped + 1;
      else null;
    end case;
  end loop;
end
$$;
