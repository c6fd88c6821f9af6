-- Deletes events past their retention (30 days, or what the tenant says) with what is known of them, and what schedules did
-- more than 90 days ago. What is still in the outbox stays, and so does everything of a tenant under hold.
-- Ids begin with their time, so a tenant's old events are the head of its part of the primary key. Tenants come in any order, each with a
-- tenth of a round at first, so that one with more events than a round deletes does not keep the others from their turn.
create or replace function windlass.prune_events(most integer) returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  old record;
  share integer := greatest(1, most / 10);
  has_more boolean := false;
  ids uuid[];
  gone integer := 0;
begin
  if not windlass.try_gate('prune events') then
    return 0;
  end if;
  for old in -- twice, if somebody has more than a share: what is left of the round is for them
    select t.id, windlass.uuid7_floor(clock_timestamp() - case when r.tenant_id is null then interval '30 days'
                                                               else make_interval(secs => r.keep_seconds) end) as bound, pass
      from generate_series(1, 2) pass cross join windlass.tenants t left join windlass.retention r on r.tenant_id = t.id and r.definition_key = '*' and r.status = 'event'
     where (r.tenant_id is null or r.keep_seconds is not null)
       and not exists (select from windlass.legal_hold h where h.tenant_id = t.id and h.job_id is null and h.subject_id is null)
     order by pass, random()
  loop
    exit when gone >= most or (old.pass = 2 and not has_more);
    ids := array(
      select e.id from windlass.event e
       where e.tenant_id = old.id and e.id < old.bound
         and not exists (select from windlass.event_pending p where p.tenant_id = e.tenant_id and p.event_id = e.id)
       order by e.id limit case old.pass when 1 then least(most - gone, share) else most - gone end);
    has_more := has_more or cardinality(ids) >= share;
    if ids <> '{}' then
      delete from windlass.event_dispatch d where d.tenant_id = old.id and d.event_id = any (ids);
      delete from windlass.event e where e.tenant_id = old.id and e.id = any (ids);
      gone := gone + cardinality(ids);
    end if;
  end loop;
  delete from windlass.fire f where f.ctid = any (array(
    select o.ctid from windlass.fire o where o.decided_at < clock_timestamp() - interval '90 days' limit most));
  return gone;
end
$$;
