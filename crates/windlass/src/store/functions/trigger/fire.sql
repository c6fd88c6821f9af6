-- Applies what the scheduler decided, one transaction for a batch: each trigger's next_due_at moves on if it is still of
-- that generation and at that instant (else somebody was quicker, or it was edited, and nothing of it is done), and with it
-- come the rows of its instants and their jobs. ords: which trigger an instant is of. reasons: null fires.
-- lanes: null for a job that has guards (overlap, jitter, a start deadline), which enters through the SQL door.
-- Lock order: triggers by key. The primary key of fire is the last guard: whatever went wrong before, one instant is one row.
create or replace function windlass.fire_triggers(
  tenants uuid[], triggers uuid[], generations integer[], expected timestamptz[], next_dues timestamptz[],
  ords integer[], dues timestamptz[], reasons text[], jobs uuid[], lanes integer[], attempts smallint[], keys text[],
  payloads jsonb[], delays double precision[],
  out fired integer, out skipped integer)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  won integer[];
  plain uuid[];
  item record;
begin
  perform windlass.stay_durable();
  perform from windlass.job_triggers t join unnest(tenants, triggers) n (tenant, id) on t.tenant_id = n.tenant and t.id = n.id
    order by t.tenant_id, t.id for update of t;
  with moved as (
    update windlass.job_triggers t set next_due_at = n.next_due
      from unnest(tenants, triggers, generations, expected, next_dues) with ordinality n (tenant, id, generation, due, next_due, ord)
     where t.tenant_id = n.tenant and t.id = n.id and t.generation = n.generation and t.next_due_at = n.due
    returning n.ord)
  select coalesce(array_agg(m.ord), '{}') into won from moved m;

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
    -- They stand in line by the row: at most 64 of one lane with the same number of attempts.
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
