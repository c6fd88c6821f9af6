-- Deletes finished jobs that are past their retention, a batch at a time. Each rule remembers how far it has come, so
-- history is read once per rule, through the BRIN index on finished_at, and a crash resumes where it was. What is under legal
-- hold is passed over (releasing the hold begins anew), and what has an artifact to be removed first waits for that.
-- Returns how many jobs were dealt with.
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
  waiting uuid[];
  seen integer := 0;
  gone integer;
begin
  if not pg_try_advisory_xact_lock(hashtext('windlass.prune')) then
    return 0;
  end if;
  for rule in
    select r.duty, r.tenant_id, r.definition_id, r.definition_key, r.status as status_name, windlass.state_code(r.status) as status,
           clock_timestamp() - r.keep as cutoff, coalesce(m.reached, '-infinity') as reached
      from windlass.retention_rules() r left join windlass.keeper_mark m on m.duty = r.duty
  loop
    gone := 0;
    for batch in
      with old as materialized (
        select h.tenant_id, h.job_id, h.finished_at from windlass.history h
         where h.finished_at >= rule.reached and h.finished_at < rule.cutoff and h.job_status = rule.status
           and h.lane in (
             select l.id from windlass.lane l
              where l.definition_id = rule.definition_id
                and case when rule.tenant_id is not null then l.tenant_id = rule.tenant_id
                    else not exists (select from windlass.retention o where o.tenant_id = l.tenant_id and o.status = rule.status_name
                                        and o.definition_key in (rule.definition_key, '*')) end)
           and not exists (select from windlass.purge_wait w where w.tenant_id = h.tenant_id and w.job_id = h.job_id)
           and (not has_holds or h.job_id <> all (windlass.held_jobs(h.tenant_id, array[h.job_id])))
         order by h.finished_at limit most
         for update skip locked) -- an operator may be retrying one of them
      select o.tenant_id, array_agg(o.job_id) as jobs, max(max(o.finished_at)) over () as reached, (sum(count(*)) over ()) >= most as is_full
        from old o group by o.tenant_id
    loop
      seen := seen + cardinality(batch.jobs);
      waiting := windlass.clean_up_first(batch.tenant_id, batch.jobs);
      gone := gone + windlass.purge(batch.tenant_id, array(select j from unnest(batch.jobs) j where j <> all (waiting)), true);
      rule.cutoff := case when batch.is_full then batch.reached else rule.cutoff end;
    end loop;
    insert into windlass.keeper_mark as m (duty, reached, moved) values (rule.duty, rule.cutoff, gone)
      on conflict (duty) do update set reached = greatest(m.reached, excluded.reached), moved = m.moved + excluded.moved, updated_at = now();
    exit when seen >= most;
  end loop;
  seen := seen + windlass.finish_clean_ups(most);
  delete from windlass.idempotency i where i.created_at < clock_timestamp() - interval '7 days';
  delete from windlass.request_keys k where k.created_at < clock_timestamp() - interval '7 days';
  delete from windlass.dedupe d where d.until < clock_timestamp() - interval '1 day';
  delete from windlass.job_workers w where w.stopped_at < clock_timestamp() - interval '90 days';
  return seen;
end
$$;
