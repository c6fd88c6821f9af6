-- Drops the empty partitions of past weeks. Returns how many.
-- Lock order: the parent, then the partition, which is then checked again, because a job may have committed into it. All
-- readers and writers of the table queue behind the first lock while it waits, so a round ends at the first lock that is
-- not available, and the next try is a usual interval later: an open transaction would otherwise stop all tenants again
-- and again.
-- Trap: every login that can use the schema can create a view on a partition that it may not read, and then the partition
-- cannot be dropped. That one is left, `troubles` names the view, and the other partitions are dropped.
create or replace function windlass.drop_old_partitions() returns integer
language plpgsql
as $$
declare
  part record;
  is_empty boolean;
  dropped integer := 0;
  reason text;
  blocked_by text;
begin
  for part in
    select c.relname, p.relname as parent from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_class p on p.oid = i.inhparent
     where p.oid in ('windlass.job'::regclass, 'windlass.history'::regclass) and c.relname ~ '_w[0-9]{2}$'
       and to_date(right(c.relname, 8), 'IYYY"_w"IW') + 7 < (now() at time zone 'UTC')::date
     order by c.relname
  loop
    execute format('select not exists (select from windlass.%I)', part.relname) into is_empty;
    continue when not is_empty;
    begin
      execute format('lock table only windlass.%I in access exclusive mode', part.parent);
      execute format('lock table windlass.%I in access exclusive mode', part.relname);
      execute format('select not exists (select from windlass.%I)', part.relname) into is_empty;
      if is_empty then
        execute format('drop table windlass.%I', part.relname);
        dropped := dropped + 1;
        delete from windlass.trouble t where t.duty = 'partition' and t.subject = part.relname;
      end if;
    exception
      when lock_not_available then
        return dropped;
      when others then
        get stacked diagnostics reason = message_text, blocked_by = pg_exception_detail;
        perform windlass.raise_server_trouble(sqlstate, reason);
        perform windlass.note_trouble('partition', '00000000-0000-0000-0000-000000000000', part.relname,
          format('is empty and was not dropped: %s', coalesce(nullif(blocked_by, ''), reason)));
    end;
  end loop;
  return dropped;
end
$$;
