-- Makes the partitions of bodies and history for this week and the next weeks_ahead, and drops those that are over and
-- empty. One at a time; gives up at once rather than queue behind a long statement with everyone else behind it.
-- A week that has jobs in the default partition already (ids from a clock that was ahead) cannot get one of its own; it
-- is left there, and must not keep the other weeks from theirs.
create or replace function windlass.maintain_partitions(weeks_ahead integer, out made integer, out dropped integer)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '500ms'
as $$
declare
  parent text;
  week date;
  part record;
  is_empty boolean;
begin
  made := 0;
  dropped := 0;
  if not pg_try_advisory_xact_lock(hashtext('windlass.maintain_partitions')) then
    return;
  end if;
  foreach parent in array array['job', 'history'] loop
    for week in select generate_series(date_trunc('week', now() at time zone 'UTC'),
                                       date_trunc('week', now() at time zone 'UTC') + weeks_ahead * interval '1 week', interval '1 week') loop
      if to_regclass(format('windlass.%I', parent || '_' || to_char(week, 'IYYY_"w"IW'))) is null then
        begin
          execute format('create table windlass.%I partition of windlass.%I for values from (%L) to (%L)',
            parent || '_' || to_char(week, 'IYYY_"w"IW'), parent,
            windlass.uuid7_floor(week at time zone 'UTC'), windlass.uuid7_floor((week + 7) at time zone 'UTC'));
          perform windlass.guard_table(parent || '_' || to_char(week, 'IYYY_"w"IW'));
          made := made + 1;
        exception when check_violation then
          null;
        end;
      end if;
    end loop;
  end loop;
  for part in
    select c.relname, p.relname as parent from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_class p on p.oid = i.inhparent
     where p.oid in ('windlass.job'::regclass, 'windlass.history'::regclass) and c.relname ~ '_w[0-9]{2}$'
       and to_date(right(c.relname, 8), 'IYYY"_w"IW') + 7 < (now() at time zone 'UTC')::date
  loop
    execute format('select not exists (select from windlass.%I)', part.relname) into is_empty;
    if is_empty then
      execute format('drop table windlass.%I', part.relname);
      dropped := dropped + 1;
    end if;
  end loop;
exception when lock_not_available then
  null; -- the next round tries again
end
$$;
