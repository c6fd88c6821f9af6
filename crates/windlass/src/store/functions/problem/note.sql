-- Records that a duty could not process a row, with the reason; the nil tenant is the installation. Bounded: problems
-- that were not seen for a day are deleted, and so are the oldest above a thousand.
create or replace function windlass.note_problem(of_duty text, of_tenant uuid, of_subject text, why text) returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  perform windlass.tenant_for(of_tenant);
  perform windlass.check_not_null(jsonb_build_object('of_duty', of_duty, 'of_tenant', of_tenant, 'of_subject', of_subject, 'why', why));
  insert into windlass.problem as t (duty, tenant_id, subject, reason)
    values (of_duty, of_tenant, left(of_subject, 200), left(why, 500))
    on conflict (tenant_id, duty, subject) do update set reason = excluded.reason, seen_at = clock_timestamp(), times = t.times + 1;
  delete from windlass.problem t where t.seen_at < clock_timestamp() - interval '24 hours';
  delete from windlass.problem t where t.ctid = any (array(select o.ctid from windlass.problem o order by o.seen_at desc offset 1000));
end
$$;

-- The same for a row that another transaction has locked: it is tried again after two seconds instead of a minute (see
-- is_set_aside). Trap: it seems to have been recorded a minute ago, so clear_problem deletes it at any time.
create or replace function windlass.note_locked(of_duty text, of_tenant uuid, of_subject text, why text) returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  perform windlass.note_problem(of_duty, of_tenant, of_subject, why);
  update windlass.problem t set seen_at = t.seen_at - interval '58 s'
   where t.tenant_id = of_tenant and t.duty = of_duty and t.subject = of_subject;
end
$$;

-- The same for a job of a round of a duty; `waited` has the tenant of each job of the round that had to wait. With the third, all jobs of
-- the tenant are left for later: each would wait as long. Returns what was recorded, which clear_problem must keep.
create or replace function windlass.note_waiting(of_duty text, of_tenant uuid, of_job uuid, waited uuid[], why text) returns uuid[]
language plpgsql
as $$
declare
  locked constant text := 'another transaction holds a lock that the end of the attempt needs: ';
begin
  perform windlass.note_locked(of_duty, of_tenant, of_job::text, locked || why);
  if cardinality(array_positions(waited, of_tenant)) <> 3 then
    return array[of_job];
  end if;
  perform windlass.note_locked(of_duty, of_tenant, of_tenant::text, locked || 'too many jobs of the tenant are waiting');
  return array[of_job, of_tenant];
end
$$;

-- Whether a problem with a row was recorded within the last minute: a duty skips it until then, so that such rows never
-- fill its rounds.
create or replace function windlass.is_set_aside(of_duty text, of_tenant uuid, of_subject text) returns boolean
language sql stable
as $$
  select exists (select from windlass.problem t where t.tenant_id = of_tenant and t.duty = of_duty and t.subject = of_subject
                    and t.seen_at > clock_timestamp() - interval '1 minute')
$$;

-- Deletes the problems of these rows, which a duty has just processed, unless they were recorded again since `at`.
-- Mostly there are none, and then this is one lookup.
create or replace function windlass.clear_problem(of_duty text, of_tenants uuid[], of_subjects uuid[], at timestamptz) returns void
language plpgsql
as $$
#variable_conflict use_column
begin
  if exists (select from windlass.problem) then
    delete from windlass.problem t using unnest(of_tenants, of_subjects) s (tenant, subject)
     where t.tenant_id = s.tenant and t.duty = of_duty and t.subject = s.subject::text and t.seen_at < at;
  end if;
end
$$;

-- A duty that continues without the row that failed calls this first: a lack of resources of the server (memory, disk,
-- time) is not caused by the row, and fails the duty.
create or replace function windlass.raise_server_problem(state text, reason text) returns void
language plpgsql
as $$
begin
  if state ~ '^(53|57|58)' then
    raise exception '%', reason using errcode = state;
  end if;
end
$$;
