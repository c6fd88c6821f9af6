-- Of jobs past their retention, selects those with an artifact whose definition names a job to remove it (on_purge).
-- That job is enqueued, and the row waits until it has succeeded. Returns the waiting jobs. If the enqueue fails (the
-- definition does not exist), the row waits too, for the nil job, and is tried again: an artifact is never forgotten.
-- After one enqueue that another transaction of the tenant has delayed (by its quota), none is tried for two seconds:
-- each would wait as long, and the caller has locked rows of other tenants.
-- The caller holds the gate `hold` of the tenant and has read the holds under it: a hold that is placed later sees the
-- row and cancels the clean-up.
create or replace function windlass.clean_up_first(tenant uuid, jobs uuid[]) returns uuid[]
language plpgsql
set jit = off
as $$
#variable_conflict use_column
declare
  nil constant uuid := '00000000-0000-0000-0000-000000000000';
  began constant timestamptz := clock_timestamp();
  is_locked boolean := windlass.is_set_aside('prune', tenant, tenant::text);
  item record;
  cleanup uuid;
  waiting uuid[] := '{}';
begin
  for item in
    select h.job_id, d.key, d.on_purge, h.artifact, b.subject_type, b.subject_id
      from windlass.history h
      join windlass.job b on b.tenant_id = h.tenant_id and b.id = h.job_id
      join windlass.lane l on l.id = h.lane
      join windlass.job_definitions d on d.id = l.definition_id
     where h.tenant_id = tenant and h.job_id = any (jobs) and h.artifact is not null and d.on_purge is not null
     order by h.job_id
  loop
    cleanup := nil;
    if not is_locked then
      begin
        select q.id into cleanup from windlass.enqueue(item.on_purge,
          jsonb_build_object('job_id', item.job_id, 'definition_key', item.key, 'artifact', item.artifact),
          tenant, source => 'system', source_ref => item.job_id::text, parent_id => item.job_id,
          subject_type => case when item.subject_id is not null then item.subject_type end, -- an older job may have half a subject
          subject_id => case when item.subject_type is not null then item.subject_id end) q;
      exception when lock_not_available then
        is_locked := true;
        perform windlass.note_locked('prune', tenant, tenant::text,
          'another transaction holds a lock that a clean-up job needs: ' || sqlerrm);
      when others then
        perform windlass.raise_server_problem(sqlstate, sqlerrm);
        cleanup := nil;
        raise warning 'the artifact of job % cannot be deleted yet: %', item.job_id, sqlerrm;
      end;
    end if;
    insert into windlass.purge_wait (tenant_id, job_id, cleanup_job_id) values (tenant, item.job_id, cleanup)
      on conflict (tenant_id, job_id) do update set cleanup_job_id = excluded.cleanup_job_id;
    waiting := waiting || item.job_id;
  end loop;
  if waiting <> '{}' and not is_locked then
    perform windlass.clear_problem('prune', array[tenant], array[tenant], began);
  end if;
  return waiting;
end
$$;

-- Deletes jobs whose artifact was removed. If the job that removes it no longer exists, it is created again. The
-- decision may be old, so the job must still be finished, and stay so until commit: a retry locks its final history
-- row. A job that is no longer finished is not deleted, and one that a blocked job waits for is left for later. Rows
-- that were processed longest ago come first, and count as processed regardless of the result: a row that cannot be
-- completed yet (its clean-up job is running, or cannot be enqueued) does not delay the others, and the cost of a round
-- depends on ten times `most`, not on all waiting rows. Tenants take turns. Ends after five seconds, because a lock of
-- each tenant can delay it.
-- Index: purge_wait_of_tenant.
create or replace function windlass.finish_clean_ups(most integer) returns integer
language plpgsql
set jit = off
as $$
#variable_conflict use_column
declare
  began constant timestamptz := clock_timestamp();
  batch record;
  turns uuid[] := windlass.tenants_in_turn('purge_wait', 'checked_at', clock_timestamp(), most);
  held uuid[];
  ended uuid[];
  gone integer := 0;
begin
  for batch in
    select w.tenant_id, array_agg(w.job_id) filter (where w.state = 'succeeded') as done,
           array_agg(w.job_id) filter (where w.state is null) as lost, array_agg(w.job_id) as jobs
      from unnest(turns) t (id) cross join lateral (
            select p.tenant_id, p.job_id, windlass.state_of(p.tenant_id, p.cleanup_job_id) as state from windlass.purge_wait p
             where p.tenant_id = t.id
             order by p.checked_at limit greatest(1, 10 * most / cardinality(turns)) for update skip locked) w
     group by w.tenant_id
  loop
    exit when clock_timestamp() - began > interval '5 s';
    update windlass.purge_wait w set checked_at = clock_timestamp() where w.tenant_id = batch.tenant_id and w.job_id = any (batch.jobs);
    continue when not windlass.try_share_gate(batch.tenant_id, 'hold'); -- a hold is being placed
    held := windlass.held_jobs(batch.tenant_id, batch.jobs);
    batch.jobs := array(select j from unnest(batch.done || batch.lost) j
                         where j <> all (held) and not windlass.is_set_aside('prune', batch.tenant_id, j::text));
    continue when batch.jobs = '{}';
    ended := array(
      select h.job_id from windlass.history h
       where h.tenant_id = batch.tenant_id and h.job_id = any (batch.jobs) and h.job_status is not null
       order by h.job_id for update skip locked);
    delete from windlass.purge_wait w
     where w.tenant_id = batch.tenant_id and w.job_id = any (batch.jobs) and w.job_id <> all (ended)
       and not windlass.has_ended(windlass.state_code(windlass.state_of(w.tenant_id, w.job_id)));
    perform windlass.clean_up_first(batch.tenant_id, array(select j from unnest(batch.lost) j where j = any (ended)));
    batch.done := array(select j from unnest(batch.done) j where j = any (ended) limit greatest(1, most / cardinality(turns)));
    if batch.done <> '{}' then
      gone := gone + (select p.gone from windlass.purge_or_set_aside(batch.tenant_id, batch.done) p);
    end if;
  end loop;
  return gone;
end
$$;
