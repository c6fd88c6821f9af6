-- A worker with nothing to do says so, and enqueuers begin to ring; a busy one says so, and they stop paying for it.
create or replace function windlass.set_waiting(by_worker integer, is_waiting boolean) returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if is_waiting then
    insert into windlass.waiting (worker) values (by_worker) on conflict do nothing;
  else
    delete from windlass.waiting w where w.worker = by_worker;
  end if;
end
$$;
