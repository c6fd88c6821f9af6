-- Triggers that are due, with the fields that are needed to decide about them, and the database's time. Takes no lock:
-- the decision is made by the caller and applied by fire_triggers with its own guard, so a scheduler that hangs does
-- not block others. late_ms: a keeper that is not the leader returns only triggers that the leader should have
-- processed by now. A trigger that a keeper could not read is skipped for a minute, so that such triggers never fill a
-- round; for the same reason all triggers of a tenant are skipped for two seconds if its open transactions block them.
-- Tenants take turns (see tenants_in_turn), each with an equal share of `most` triggers and of most_bytes, and at least
-- one. A trigger larger than the share is returned only as the first one, and does not delay those after it: a
-- transaction of the tenant may lock the first one for long. The first trigger of every tenant comes before the second
-- one of any, so that a caller that stops early has treated all tenants equally.
-- Index: job_triggers_due to find who is due, job_triggers_due_of_tenant.
create or replace function windlass.due_triggers(late_ms integer, most integer, most_bytes integer)
returns table (fields jsonb, at timestamptz)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  late timestamptz := clock_timestamp() - make_interval(secs => late_ms / 1000.0);
  has_problem boolean := exists (select from windlass.problem x where x.duty = 'schedule');
  is_full boolean;
  turns uuid[];
  share integer;
begin
  if late_ms not between 0 and 3600000 then
    perform windlass.raise_span('late_ms', 0, 3600000);
  end if;
  select count(*) >= most, array_agg(distinct t.tenant_id) into is_full, turns
    from (select t.tenant_id from windlass.job_triggers t where t.next_due_at <= late order by t.next_due_at limit most) t;
  if is_full then
    turns := windlass.tenants_in_turn('job_triggers', 'next_due_at', late, most);
  end if;
  share := most_bytes / cardinality(turns);
  return query
    select windlass.trigger_fields(t, d.key), clock_timestamp()
      from unnest(turns) u (id) cross join lateral (
        select s.id, s.bytes, row_number() over line as nth, sum(s.bytes) filter (where s.bytes <= share) over line as so_far
          from (select t.id, t.next_due_at, octet_length(t.payload_template::text) as bytes
                  from windlass.job_triggers t
                 where t.tenant_id = u.id and t.next_due_at <= late
                   and not (has_problem and (windlass.is_set_aside('schedule', t.tenant_id, t.id::text)
                                             or windlass.is_set_aside('schedule', t.tenant_id, t.tenant_id::text)))
                 order by t.next_due_at limit greatest(1, most / cardinality(turns))) s
        window line as (order by s.next_due_at, s.id)) s
      join windlass.job_triggers t on t.tenant_id = u.id and t.id = s.id
      left join windlass.job_definitions d on d.id = t.definition_id
     where s.nth = 1 or s.bytes <= share and s.so_far <= share
     order by s.nth, t.next_due_at;
end
$$;

-- Milliseconds until the next instant of any schedule, null if there is none.
create or replace function windlass.next_due_ms() returns bigint
language sql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select greatest(0, windlass.milliseconds_until(t.next_due_at, clock_timestamp()) + 1)
    from windlass.job_triggers t
   where t.next_due_at is not null
     and not (exists (select from windlass.problem x where x.duty = 'schedule')
          and (windlass.is_set_aside('schedule', t.tenant_id, t.id::text)
            or windlass.is_set_aside('schedule', t.tenant_id, t.tenant_id::text)))
   order by t.next_due_at limit 1
$$;

-- Acquires or keeps the leadership of a duty. Returns the epoch while this holder leads, else null. Written only after
-- half of the lease, and never waits for a lock: a leader that hangs must not block the others. A lease is at most ten
-- minutes, and a longer one that is stored has expired: a duty must not stop because of a login that is gone.
create or replace function windlass.lead(of_duty text, by_holder uuid, lease_ms integer) returns bigint
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  held record;
  lease interval := make_interval(secs => lease_ms / 1000.0);
begin
  if coalesce(lease_ms not between 1 and 600000, true) then
    perform windlass.raise_span('lease_ms', 1, 600000);
  elsif by_holder is null then
    raise exception 'by_holder must be a uuid' using errcode = 'WL007', column = 'by_holder';
  elsif coalesce(of_duty not in ('schedule', 'dispatch', 'prune', 'retire'), true) then
    raise exception 'the duty % has no leader', coalesce(quote_literal(of_duty), 'null') using errcode = 'WL007', column = 'of_duty';
  end if;
  select l.holder, l.epoch, l.expires_at - clock_timestamp() as rest into held from windlass.leader l where l.duty = of_duty;
  if not found then
    insert into windlass.leader (duty, holder, expires_at) values (of_duty, by_holder, clock_timestamp() + lease) on conflict do nothing;
  elsif held.holder = by_holder and held.rest > lease / 2 and held.rest <= interval '10 minutes' then
    return held.epoch;
  elsif held.holder = by_holder or held.rest not between interval '1 us' and interval '10 minutes' then
    update windlass.leader l set holder = by_holder, expires_at = clock_timestamp() + lease,
           epoch = l.epoch + (l.holder <> by_holder)::integer
     where l.duty = (select s.duty from windlass.leader s where s.duty = of_duty and s.epoch = held.epoch for update skip locked);
  end if;
  return (select l.epoch from windlass.leader l where l.duty = of_duty and l.holder = by_holder and l.expires_at > clock_timestamp());
end
$$;
