-- Applies the decisions of the reaper. A worker that left jobs without deregistering is marked as lost. A job that
-- cannot be settled is recorded in `problem`, and the others are settled. A job that another transaction has locked is
-- left for the next round. Waits only briefly for other locks of open transactions: such a job is tried again after two
-- seconds, and after three of them all jobs of the tenant.
-- Lock: the workers' rows; each is checked again, so a heartbeat either came first (its jobs are kept) or comes later
-- (its jobs are gone). settle checks attempt and token again.
create or replace function windlass.reap(
  workers integer[], tenants uuid[], jobs uuid[], attempts integer[], tokens uuid[], details jsonb[],
  out settled integer[], out overruled integer[])
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  at timestamptz := clock_timestamp();
  overdue integer[];
  held record;
  ended record;
  waited uuid[] := '{}'; -- the tenant of each job that had to wait too long
  noted uuid[] := '{}';
begin
  if not (windlass.is_list(workers) and windlass.is_list(tenants) and windlass.is_list(jobs)
      and windlass.is_list(attempts) and windlass.is_list(tokens) and windlass.is_list(details)) then
    perform windlass.raise_array();
  end if;
  perform windlass.check_read_committed();
  perform windlass.tenants_for(tenants);
  select array_agg(o.id) into overdue from (
    select w.id from windlass.job_workers w
     where w.id = any (workers) and w.lease_expires_at <= clock_timestamp()
     order by w.id for update skip locked) o;
  if overdue is null then
    return;
  end if;
  -- In the blocks of these workers, and not by their bodies: a job without a body must end too.
  select array_agg(h.ord) as ords, array_agg(h.tenant) as tenants, array_agg(h.lane) as lanes, array_agg(h.seq) as seqs,
         array_agg(h.attempt) as attempts, array_agg(h.token) as tokens, array_agg(h.at_position) as positions,
         array_agg(h.detail) as details, array_agg(null::integer) as ran_ms
    into held from (
      select i.ord::integer, i.tenant, l.lane, l.seq, i.attempt, i.token, r.at_position, i.detail
        from windlass.live l
        cross join lateral windlass.running_of(l.ids, l.ended) r
        join unnest(tenants, jobs, attempts, tokens, details) with ordinality i (tenant, job, attempt, token, detail, ord)
          on i.tenant = l.tenant_id and i.job = r.job_id and i.attempt = l.attempt and i.token = l.token
       where l.worker = any (overdue)
       order by i.tenant, l.lane, l.seq, r.at_position) h;
  begin
    select s.missed, s.overruled into ended from windlass.settle_blocks(held.tenants, held.lanes, held.seqs, held.attempts, held.tokens,
      held.positions, held.ran_ms, held.details, overdue, true) s;
    settled := array(select h.ord from unnest(held.ords) with ordinality h (ord, i) where h.i <> all (coalesce(ended.missed, '{}')));
    overruled := array(select held.ords[o] from unnest(ended.overruled) o);
  exception when others then
    perform windlass.raise_server_problem(sqlstate, sqlerrm);
    for i in 1 .. coalesce(cardinality(held.ords), 0) loop
      continue when cardinality(array_positions(waited, held.tenants[i])) >= 3;
      begin
        select s.missed, s.overruled into ended from windlass.settle_blocks(held.tenants[i:i], held.lanes[i:i], held.seqs[i:i],
          held.attempts[i:i], held.tokens[i:i], held.positions[i:i], held.ran_ms[i:i], held.details[i:i], overdue, true) s;
        settled := settled || array(select held.ords[i] where ended.missed is null);
        overruled := overruled || array(select held.ords[i] where ended.overruled is not null);
      exception when lock_not_available then
        waited := waited || held.tenants[i];
        noted := noted || windlass.note_waiting('reap', held.tenants[i], jobs[held.ords[i]], waited, sqlerrm);
      when others then
        perform windlass.raise_server_problem(sqlstate, sqlerrm);
        perform windlass.note_problem('reap', held.tenants[i], jobs[held.ords[i]]::text, 'the job cannot be recovered: ' || sqlerrm);
      end;
    end loop;
  end;
  settled := nullif(settled, '{}');
  overruled := nullif(overruled, '{}');
  perform windlass.clear_problem('reap', array_agg(i.tenant), array_agg(s.subject), at)
     from unnest(tenants, jobs) i (tenant, job) cross join lateral unnest(array[i.job, i.tenant]) s (subject)
    where s.subject <> all (noted);
  update windlass.job_workers w set ended = 'lost' where w.id = any (overdue) and w.ended is null;
end
$$;
