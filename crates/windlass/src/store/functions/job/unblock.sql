-- Decides the dependencies on those of the given jobs that have ended. A dependency is met if its job succeeded, was
-- canceled (for 'wait'), or ended in any way (for 'run'); an unmet 'cancel' cancels the waiting job. A deleted job
-- counts as canceled: only an operator's purge deletes a job that a blocked one waits for. Each decision may lead to
-- others, hence the loop. only_jobs: decides only for these waiting jobs (an enqueue passes its own), and for what is
-- canceled with them. Decides for the first `most` jobs; if there are more, the keeper is notified and decides the rest
-- in batches, so that a settlement stays short. Returns the number of decided dependencies.
--
-- Lock order: the blocked rows first, or two jobs that end at once would each see the other as unfinished, and the
-- waiting job would wait forever. All rows that the decision may reach are locked at once, by id: level by level, two
-- failures that meet in a diamond would lock the same rows in opposite order. A job that starts to wait meanwhile is
-- not among them; the keeper checks every new dependency (see unblock_all). A row that another transaction holds for
-- long, such as an open cancel, is left to the keeper too (see lock_blocked), because settlements and claims of many
-- tenants pass through here. So is a job that has ended and whose dependencies another transaction holds: it has no
-- blocked row, and a retry of it, or of a job before it, locks its dependencies. A lock does not renew a fixed
-- snapshot, in which a dependency that another transaction has decided since still exists, and a job that it has retried
-- since has ended: outside read committed, the keeper checks the jobs that seem to stay blocked (see unblock_rest), and
-- decides the dependencies that are passed on to them.
-- Terminates for any data: no dependency is decided twice, so a cycle is left as it is, and after a hundred steps the
-- keeper continues.
create or replace function windlass.unblock(tenant uuid, needs uuid[], only_jobs uuid[] default null,
  most integer default 100) returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
  ended record;
  reached uuid[];
  busy uuid[];
  jobs uuid[];
  seen uuid[];
  wave record;
  done_needs uuid[];
  done_jobs uuid[];
  decided integer := 0;
  steps integer := 0;
  unblocked uuid[];
begin
  select array_agg(s.id) as ids, array_agg(s.id) filter (where s.state in ('failed', 'dead_letter')) as failed,
         array_agg(s.id) filter (where s.state in ('failed', 'dead_letter', 'canceled')) as unmet
    into ended
    from unnest(needs, windlass.states_of(tenant, needs)) s (id, state)
   where windlass.has_ended(windlass.state_code(s.state));
  if ended.ids is null then
    return 0;
  end if;
  -- Dependencies with 'wait' on a failed job are excluded: they stay undecided and would displace those that can be
  -- decided.
  with recursive reach (job_id, falls) as (
    select d.job_id, d.if_unmet = 'cancel' and d.needs_job_id = any (ended.unmet) from (
      select d.* from windlass.dependency d where d.tenant_id = tenant and d.needs_job_id = any (ended.ids) and only_jobs is null
      union all -- and not one condition with OR, which would read all dependencies on the job
      select d.* from windlass.dependency d where d.tenant_id = tenant and d.needs_job_id = any (ended.ids)
             and d.job_id = any (only_jobs)) d
     where not (d.if_unmet = 'wait' and d.needs_job_id = any (coalesce(ended.failed, '{}')))
    union
    select d.job_id, d.if_unmet = 'cancel' from reach r
      join windlass.dependency d on d.tenant_id = tenant and d.needs_job_id = r.job_id
     where r.falls)
  select array_agg(distinct r.job_id) into reached from (select r.job_id from reach r limit most + 1) r;
  if reached is null then
    return 0;
  end if;
  busy := windlass.lock_blocked(tenant, reached[:most]);
  unblocked := array(select j from unnest(reached[:most]) j
    where not exists (select from windlass.blocked b where b.tenant_id = tenant and b.job_id = j));
  if unblocked <> '{}' then
    with mine as materialized (
      select d.needs_job_id, d.job_id from windlass.dependency d
       where d.tenant_id = tenant and d.job_id = any (unblocked) order by d.job_id, d.needs_job_id for update skip locked)
    select busy || array_agg(h.job_id) into busy from (
      select d.needs_job_id, d.job_id from windlass.dependency d where d.tenant_id = tenant and d.job_id = any (unblocked)
      except select m.needs_job_id, m.job_id from mine m) h;
  end if;
  jobs := array(select j from unnest(reached[:most]) j where j <> all (busy));
  seen := ended.ids;
  needs := ended.ids;
  while needs <> '{}' and steps < 100 loop
    select * into wave from windlass.unblock_wave(tenant, needs, jobs, done_needs, done_jobs);
    done_needs := wave.done_needs;
    done_jobs := wave.done_jobs;
    decided := decided + wave.decided;
    needs := wave.next;
    seen := seen || wave.next;
    steps := steps + 1;
  end loop;
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    insert into windlass.unblock_due (tenant_id, needs_job_id)
      select tenant, b.job_id from windlass.blocked b where b.tenant_id = tenant and b.job_id = any (jobs)
      union select tenant, d.needs_job_id from windlass.dependency d where d.tenant_id = tenant and d.job_id = any (jobs)
      order by 2
      on conflict do nothing;
    perform pg_notify('windlass', 'unblock');
  end if;
  if cardinality(reached) > most or busy <> '{}' or needs <> '{}' then
    insert into windlass.unblock_due (tenant_id, needs_job_id)
      select distinct tenant, s.id from unnest(seen) s (id)
       where exists (select from windlass.dependency d where d.tenant_id = tenant and d.needs_job_id = s.id)
       order by 2
      on conflict do nothing;
    perform pg_notify('windlass', 'unblock');
  end if;
  return decided;
end
$$;

-- Locks the blocked rows of these jobs, by id, and returns those that another transaction holds. Most holders settle a
-- job concurrently and end within milliseconds, so they are waited for, but briefly, and only while the tenant has
-- nothing left to the keeper: an open transaction causes one wait and not one per settlement.
create or replace function windlass.lock_blocked(tenant uuid, jobs uuid[]) returns uuid[]
language plpgsql
set lock_timeout = '200ms'
set enable_hashjoin = on
as $$
#variable_conflict use_column
declare
  busy uuid[];
begin
  with mine as materialized (
    select b.job_id from windlass.blocked b where b.tenant_id = tenant and b.job_id = any (jobs) order by b.job_id for update skip locked)
  select coalesce(array_agg(b.job_id), '{}') into busy from windlass.blocked b
   where b.tenant_id = tenant and b.job_id = any (jobs) and not exists (select from mine m where m.job_id = b.job_id);
  if busy <> '{}' and not exists (select from windlass.unblock_due u where u.tenant_id = tenant) then
    begin
      perform from windlass.blocked b where b.tenant_id = tenant and b.job_id = any (busy) order by b.job_id for update;
      busy := '{}';
    exception when lock_not_available or deadlock_detected then
      null; -- left to the keeper
    end;
  end if;
  return busy;
end
$$;

-- Decides the dependencies of these jobs on these needs; their blocked rows are locked. Returns their number, and the
-- needs to check next: jobs that it canceled, and the dependencies of a need that ended while it waited for others of
-- its ordering key, which are passed on to the jobs that wait for it. done_needs, done_jobs: the dependencies decided
-- so far, which are not passed on again.
create or replace function windlass.unblock_wave(
  tenant uuid, needs uuid[], jobs uuid[], inout done_needs uuid[], inout done_jobs uuid[], out decided integer, out next uuid[])
language plpgsql
as $$
#variable_conflict use_column
declare
  settled uuid[];
  canceled uuid[];
  now_needs uuid[];
  now_jobs uuid[];
begin
  with need as materialized (
    select n.id, n.state from unnest(needs, windlass.states_of(tenant, needs)) n (id, state)),
  known as materialized (
    select d.needs_job_id, d.job_id, d.if_unmet, d.is_ordering,
           n.state = 'succeeded' or d.if_unmet = 'run' or (d.if_unmet = 'wait' and n.state = 'canceled') as met
      from need n join windlass.dependency d on d.tenant_id = tenant and d.needs_job_id = n.id
     where windlass.has_ended(windlass.state_code(n.state)) and d.job_id = any (jobs)),
  done as (
    delete from windlass.dependency d using known k
     where (k.met or k.if_unmet = 'cancel') and d.tenant_id = tenant and d.needs_job_id = k.needs_job_id and d.job_id = k.job_id),
  left_behind as (
    select d.needs_job_id, k.job_id, k.if_unmet, k.is_ordering and d.is_ordering as is_ordering
      from known k join windlass.dependency d on d.tenant_id = tenant and d.job_id = k.needs_job_id
     where (k.met or k.if_unmet = 'cancel') and d.needs_job_id <> k.job_id
       and not exists (select from unnest(done_needs, done_jobs) o (need, job) where o.need = d.needs_job_id and o.job = k.job_id)
       and not exists (select from known o where o.needs_job_id = d.needs_job_id and o.job_id = k.job_id
         and (o.met or o.if_unmet = 'cancel'))),
  handed_on as (
    insert into windlass.dependency (tenant_id, needs_job_id, job_id, if_unmet, is_ordering)
      select tenant, l.needs_job_id, l.job_id, l.if_unmet, l.is_ordering from left_behind l on conflict do nothing)
  select count(*) filter (where k.met or k.if_unmet = 'cancel'), array_agg(distinct k.job_id),
         array_agg(distinct k.job_id) filter (where not k.met and k.if_unmet = 'cancel'),
         array(select distinct l.needs_job_id from left_behind l), array_agg(k.needs_job_id), array_agg(k.job_id)
    into decided, settled, canceled, next, now_needs, now_jobs from known k;
  done_needs := done_needs || now_needs;
  done_jobs := done_jobs || now_jobs;
  perform windlass.finish_waiting(tenant, canceled, windlass.state_code('canceled'), 'dependency');
  perform windlass.start_unblocked(tenant, settled);
  next := coalesce(canceled, '{}')
    || case when current_setting('transaction_isolation') in ('read committed', 'read uncommitted') then next else '{}' end;
end
$$;
