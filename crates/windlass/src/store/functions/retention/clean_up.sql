-- Of jobs that are past their retention, those that have an artifact and whose definition names a job to remove it: that job
-- is enqueued, and the row waits until it has succeeded. Answers the jobs that wait. What cannot be enqueued (the
-- definition is gone) waits too, for the nil job, and is tried again: an artifact is not forgotten.
create or replace function windlass.clean_up_first(tenant uuid, jobs uuid[]) returns uuid[]
language plpgsql
as $$
#variable_conflict use_column
declare
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
    begin
      select q.id into cleanup from windlass.enqueue(item.on_purge,
        jsonb_build_object('job_id', item.job_id, 'definition_key', item.key, 'artifact', item.artifact),
        tenant, source => 'system', source_ref => item.job_id::text, parent_id => item.job_id,
        subject_type => item.subject_type, subject_id => item.subject_id) q;
    exception when others then
      if sqlstate !~ '^(WL|22|23)' then
        raise;
      end if;
      cleanup := '00000000-0000-0000-0000-000000000000';
      raise warning 'the artifact of job % cannot be removed yet: %', item.job_id, sqlerrm;
    end;
    insert into windlass.purge_wait (tenant_id, job_id, cleanup_job_id) values (tenant, item.job_id, cleanup)
      on conflict (tenant_id, job_id) do update set cleanup_job_id = excluded.cleanup_job_id;
    waiting := waiting || item.job_id;
  end loop;
  return waiting;
end
$$;

-- Deletes what waited for its artifact and need not any more; where the job that removes it is gone itself, it is made anew.
create or replace function windlass.finish_clean_ups(most integer) returns integer
language plpgsql
as $$
#variable_conflict use_column
declare
  batch record;
  gone integer := 0;
begin
  for batch in
    select w.tenant_id, array_agg(w.job_id) filter (where w.state = 'succeeded') as done, array_agg(w.job_id) filter (where w.state is null) as lost
      from (select p.tenant_id, p.job_id, windlass.state_of(p.tenant_id, p.cleanup_job_id) as state from windlass.purge_wait p
             where coalesce(windlass.state_of(p.tenant_id, p.cleanup_job_id), 'succeeded') = 'succeeded' limit most) w
     group by w.tenant_id
  loop
    if batch.lost is not null then
      perform windlass.clean_up_first(batch.tenant_id, batch.lost);
    end if;
    batch.done := array(select j from unnest(batch.done) j where j <> all (windlass.held_jobs(batch.tenant_id, batch.done)));
    if batch.done <> '{}' then
      gone := gone + windlass.purge(batch.tenant_id, batch.done, true);
    end if;
  end loop;
  return gone;
end
$$;
