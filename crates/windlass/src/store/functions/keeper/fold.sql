-- Adds counter differences to the totals. One transaction, so that totals plus remaining differences are exact in every
-- snapshot. Rows that another transaction has locked are left for the next round. A lane whose differences cannot be
-- added is recorded in `problem`, and the others are processed.
-- The default of `most` is what two seconds of full load append.
-- Lock: the gate `fold`, or two calls would wait for each other's rows.
create or replace function windlass.fold_tallies(most integer default 20000, out moved integer, out has_more boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  has_problem boolean := exists (select from windlass.problem t where t.duty = 'fold');
  places tid[];
  part record;
begin
  moved := 0;
  has_more := false;
  if not exists (select from windlass.tally) or not windlass.try_gate('fold') then
    return;
  end if;
  begin
    places := array(select t.ctid from windlass.tally t
                     where not (has_problem and windlass.is_set_aside('fold', t.tenant_id, t.lane::text)) limit most
                       for update skip locked);
    moved := windlass.fold_these(places);
    if has_problem then -- of lanes that have no differences left
      delete from windlass.problem t
       where t.duty = 'fold' and not exists (select from windlass.tally d where d.tenant_id = t.tenant_id and d.lane::text = t.subject);
    end if;
  exception when others then
    perform windlass.raise_server_problem(sqlstate, sqlerrm);
    moved := 0;
    for part in select t.tenant_id, t.lane, array_agg(t.ctid) as places from windlass.tally t where t.ctid = any (places) group by 1, 2 loop
      begin
        moved := moved + windlass.fold_these(part.places);
      exception when others then
        perform windlass.raise_server_problem(sqlstate, sqlerrm);
        perform windlass.note_problem('fold', part.tenant_id, part.lane::text, 'the counters of this lane cannot be summed: ' || sqlerrm);
      end;
    end loop;
  end;
  has_more := moved >= most;
end
$$;

-- Adds these rows of tally to the totals and deletes them.
create or replace function windlass.fold_these(places tid[]) returns integer
language plpgsql
as $$
#variable_conflict use_column
declare
  folded integer;
begin
  with taken as (
    delete from windlass.tally t where t.ctid = any (places) returning *),
  merged as (
    insert into windlass.total as t (tenant_id, lane, queued, running, scheduled, blocked, succeeded, failed, dead_letter, canceled, purged)
      select n.tenant_id, n.lane, sum(n.queued), sum(n.running), sum(n.scheduled), sum(n.blocked), sum(n.succeeded), sum(n.failed),
             sum(n.dead_letter), sum(n.canceled), sum(n.purged)
        from taken n group by n.tenant_id, n.lane
      on conflict (tenant_id, lane) do update set
        queued = t.queued + excluded.queued, running = t.running + excluded.running, scheduled = t.scheduled + excluded.scheduled,
        blocked = t.blocked + excluded.blocked, succeeded = t.succeeded + excluded.succeeded, failed = t.failed + excluded.failed,
        dead_letter = t.dead_letter + excluded.dead_letter, canceled = t.canceled + excluded.canceled, purged = t.purged + excluded.purged)
  select count(*) into folded from taken;
  return folded;
end
$$;
