-- Pauses or resumes a queue: workers skip its lanes from their next poll on. Queues are shared by all tenants, so the
-- call is refused with a current tenant. A queue that is as requested is not written.
create or replace function windlass.set_paused(queue text, paused boolean) returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  perform windlass.need_no_tenant('a queue');
  insert into windlass.queues (name, is_paused) values ($1, $2)
    on conflict (name) do update set is_paused = excluded.is_paused, updated_at = now() where queues.is_paused <> excluded.is_paused;
  if found then
    perform windlass.must_record(null, array[case when paused then 'queue.pause' else 'queue.resume' end], queue, null,
      jsonb_build_object('is_paused', paused));
  end if;
end
$$;
