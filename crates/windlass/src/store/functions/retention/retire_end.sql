-- How a replacement of partitions ends without a swap, and what is deleted at its end.

-- Undoes a replacement that was canceled: the old partitions stay.
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

create or replace function windlass.retire_end() returns void
language sql
as $$
  delete from windlass.retiring_change;
  delete from windlass.retiring_gone;
  delete from windlass.retiring_hold;
  delete from windlass.retiring
$$;

-- Deletes what the replacement has stored about a deleted tenant, whose jobs are gone. The copies of its jobs are deleted
-- first, by the notes about them. Returns whether there was anything: then the caller calls again, because a step that is
-- in progress is not waited for.
create or replace function windlass.forget_retiring(tenant uuid, most integer) returns boolean
language plpgsql
as $$
#variable_conflict use_column
declare
  now_at windlass.retiring;
begin
  if not exists (select from windlass.retiring_change c where c.tenant_id = tenant)
     and not exists (select from windlass.retiring_gone g where g.tenant_id = tenant)
     and not exists (select from windlass.retiring_hold h where h.tenant_id = tenant)
     and not exists (select from windlass.retiring_keep k where k.tenant_id = tenant) then
    return false;
  end if;
  if windlass.try_gate('retire') then
    select * into now_at from windlass.retiring;
    if now_at.step = 'copied' and exists (select from windlass.retiring_change c where c.tenant_id = tenant) then
      perform windlass.retire_catch_up(now_at, most);
    else
      delete from windlass.retiring_change c where c.tenant_id = tenant;
      delete from windlass.retiring_gone g where g.tenant_id = tenant;
      delete from windlass.retiring_hold h where h.tenant_id = tenant;
      delete from windlass.retiring_keep k where k.tenant_id = tenant;
    end if;
  end if;
  return true;
end
$$;
