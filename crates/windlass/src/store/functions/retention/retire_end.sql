-- How a replacement of partitions ends without a swap, and what is deleted at its end.

-- Undoes a replacement that was canceled: the old partitions stay, and their jobs are deleted one by one until the next
-- attempt.
-- Lock: ACCESS EXCLUSIVE on the old partitions and, briefly, on the default ones.
create or replace function windlass.retire_undo(was windlass.retiring) returns void
language plpgsql
as $$
declare
  name text;
begin
  foreach name in array was.old loop
    execute format('drop trigger if exists note_change on windlass.%I', name);
    execute format('alter table windlass.%I reset (autovacuum_enabled, toast.autovacuum_enabled)', name);
  end loop;
  perform windlass.drop_guards();
  perform windlass.drop_tables(was.new);
  perform windlass.retire_end();
  perform windlass.note_failure(was.low, was.high);
end
$$;

create or replace function windlass.drop_guards() returns void
language plpgsql
as $$
declare
  name text;
begin
  foreach name in array windlass.partitioned() loop
    execute format('alter table windlass.%I drop constraint if exists not_retiring', name || '_default');
  end loop;
end
$$;

-- Lock: ACCESS EXCLUSIVE on tables that only replacements use. There may be as many rows as jobs have changed.
create or replace function windlass.retire_end() returns void
language plpgsql
as $$
begin
  truncate windlass.retiring_change, windlass.retiring_gone, windlass.retiring_tenant, windlass.retiring_back;
  delete from windlass.retiring;
end
$$;

-- Deletes what the replacement has stored about a deleted tenant, whose jobs are gone. The copies of its jobs are deleted
-- first, by the notes about them. Returns whether there was anything: then the caller calls again, because a step that is
-- in progress is not waited for. is_short: the caller's transaction ends soon; another one must not lock the gate of all
-- replacements.
create or replace function windlass.forget_retiring(tenant uuid, most integer, is_short boolean) returns boolean
language plpgsql
as $$
#variable_conflict use_column
declare
  now_at windlass.retiring;
begin
  if not exists (select from windlass.retiring_change c where c.tenant_id = tenant)
     and not exists (select from windlass.retiring_gone g where g.tenant_id = tenant)
     and not exists (select from windlass.retiring_tenant t where t.tenant_id = tenant)
     and not exists (select from windlass.retiring_back k where k.tenant_id = tenant) then
    return false;
  end if;
  if is_short and windlass.try_gate('retire') then
    select * into now_at from windlass.retiring;
    if now_at.step in ('begun', 'copied') and exists (select from windlass.retiring_change c where c.tenant_id = tenant
         and (c.tenant_id, c.job_id) <= (now_at.done_to[1], now_at.done_to[2])) then
      perform windlass.retire_apply_notes(now_at, most, tenant);
    elsif now_at.step in ('begun', 'copied') and exists (select from windlass.retiring_back k where k.tenant_id = tenant) then
      perform windlass.retire_bring_back(now_at, most, 16777216, tenant);
    else
      delete from windlass.retiring_change c where c.tenant_id = tenant;
      delete from windlass.retiring_gone g where g.tenant_id = tenant;
      delete from windlass.retiring_tenant t where t.tenant_id = tenant;
      delete from windlass.retiring_back k where k.tenant_id = tenant;
    end if;
  end if;
  return true;
end
$$;
