-- Triggers whose instant has come, with what is needed to decide about them, and the database's time. Takes no lock: the
-- decision is made outside and applied by fire_triggers under its own guard, so a scheduler that freezes holds nobody up.
-- late_ms: whoever is not the leader looks only at what the leader should have done by now.
-- Index: job_triggers_due, read in its own order.
create or replace function windlass.due_triggers(late_ms integer, most integer, out fields jsonb, out at timestamptz)
returns setof record
language sql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select to_jsonb(t) || jsonb_build_object('definition_key', d.key), clock_timestamp()
    from windlass.job_triggers t join windlass.job_definitions d on d.id = t.definition_id
   where t.next_due_at <= clock_timestamp() - make_interval(secs => late_ms / 1000.0)
   order by t.next_due_at limit most
$$;

-- Milliseconds until the next instant of any schedule, null if there is none.
create or replace function windlass.next_due_ms() returns bigint
language sql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select greatest(0, ceil(extract(epoch from t.next_due_at - clock_timestamp()) * 1000))::bigint
    from windlass.job_triggers t where t.next_due_at is not null order by t.next_due_at limit 1
$$;

-- Takes or keeps the lead of a duty. Answers the epoch while this holder leads, else null. Written only when half of the
-- lease is over, and never waited for: a leader that freezes in the middle must not stop the others.
create or replace function windlass.lead(of_duty text, by_holder uuid, lease_ms integer) returns bigint
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  held record;
  lease interval := make_interval(secs => lease_ms / 1000.0);
begin
  select l.holder, l.epoch, l.expires_at - clock_timestamp() as rest into held from windlass.leader l where l.duty = of_duty;
  if not found then
    insert into windlass.leader (duty, holder, expires_at) values (of_duty, by_holder, clock_timestamp() + lease) on conflict do nothing;
  elsif held.holder = by_holder and held.rest > lease / 2 then
    return held.epoch;
  elsif held.holder = by_holder or held.rest <= interval '0' then
    update windlass.leader l set holder = by_holder, expires_at = clock_timestamp() + lease,
           epoch = l.epoch + (l.holder <> by_holder)::integer
     where l.duty = (select s.duty from windlass.leader s where s.duty = of_duty and s.epoch = held.epoch for update skip locked);
  end if;
  return (select l.epoch from windlass.leader l where l.duty = of_duty and l.holder = by_holder and l.expires_at > clock_timestamp());
end
$$;
