-- Folds counter differences into totals. One transaction, so that totals plus what is left is exact in every snapshot;
-- one folder at a time, or two would wait for each other's rows.
create or replace function windlass.fold_tallies(most integer) returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  folded integer;
begin
  if not pg_try_advisory_xact_lock(hashtext('windlass.fold_tallies')) then
    return 0;
  end if;
  with taken as (
    delete from windlass.tally where ctid = any (array(select t.ctid from windlass.tally t limit most)) returning *),
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
