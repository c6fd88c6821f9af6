-- Deletes finished jobs that are past their definition's retention for their status, a batch at a time. Each rule
-- (definition, status) remembers how far it has come, so history is read once per rule, through the BRIN index on
-- finished_at, and a crash resumes where it was. Returns how many jobs went.
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
  gone integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtext('windlass.prune')) then
    return 0;
  end if;
  for rule in
    select 'prune ' || d.id || ' ' || r.key as duty, d.id as definition_id, windlass.state_code(r.key) as status,
           clock_timestamp() - make_interval(secs => r.value::double precision) as cutoff,
           coalesce(m.reached, '-infinity') as reached
      from windlass.job_definitions d cross join lateral jsonb_each_text(d.retention) r
      left join windlass.keeper_mark m on m.duty = 'prune ' || d.id || ' ' || r.key
     where r.value is not null and windlass.state_code(r.key) <= 4
  loop
    for batch in
      with old as materialized (
        select h.tenant_id, h.job_id, h.finished_at from windlass.history h
         where h.finished_at >= rule.reached and h.finished_at < rule.cutoff and h.job_status = rule.status
           and h.lane in (select l.id from windlass.lane l where l.definition_id = rule.definition_id)
         order by h.finished_at limit most
         for update skip locked) -- an operator may be retrying one of them
      select o.tenant_id, array_agg(o.job_id) as jobs, max(max(o.finished_at)) over () as reached, (sum(count(*)) over ()) >= most as is_full
        from old o group by o.tenant_id
    loop
      gone := gone + windlass.purge(batch.tenant_id, batch.jobs, true);
      rule.cutoff := case when batch.is_full then batch.reached else rule.cutoff end;
    end loop;
    insert into windlass.keeper_mark (duty, reached) values (rule.duty, rule.cutoff)
      on conflict (duty) do update set reached = greatest(keeper_mark.reached, excluded.reached), updated_at = now();
    exit when gone >= most;
  end loop;
  delete from windlass.idempotency i where i.created_at < clock_timestamp() - interval '7 days';
  delete from windlass.request_keys k where k.created_at < clock_timestamp() - interval '7 days';
  delete from windlass.dedupe d where d.until < clock_timestamp() - interval '1 day';
  delete from windlass.job_log o where o.at < clock_timestamp() - interval '7 days';
  delete from windlass.job_workers w where w.stopped_at < clock_timestamp() - interval '90 days';
  return gone;
end
$$;
