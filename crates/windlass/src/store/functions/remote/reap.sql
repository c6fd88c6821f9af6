-- Applies what the reaper decided about jobs held elsewhere. Locks each lease and re-checks that it has still run out, so a
-- heartbeat either came first (and the job is spared) or comes after (and finds it taken); settle re-checks attempt and
-- token. Answers the positions that took effect.
create or replace function windlass.reap_remote(
  tenants uuid[], jobs uuid[], attempts integer[], tokens uuid[], details jsonb[], out settled integer[], out overruled integer[])
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  due record;
  done text;
begin
  for due in
    select i.ord::integer as ord
      from unnest(tenants, jobs, attempts, tokens) with ordinality i (tenant, job, attempt, token, ord)
      join windlass.remote_lease r on r.tenant_id = i.tenant and r.job_id = i.job and r.attempt = i.attempt and r.token = i.token
     where r.expires_at <= clock_timestamp()
     order by r.tenant_id, r.job_id
       for update of r skip locked
  loop
    done := windlass.settle_remote(tenants[due.ord], jobs[due.ord], attempts[due.ord], tokens[due.ord], details[due.ord]);
    if done <> 'lost' then
      settled := settled || due.ord;
    end if;
    if done = 'overruled' then
      overruled := overruled || due.ord;
    end if;
  end loop;
end
$$;
