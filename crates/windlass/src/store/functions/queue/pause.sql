-- Pauses or resumes a queue: workers skip its lanes from their next poll on. Queues are shared by all tenants, so the
-- call is refused with a current tenant. A queue that is as requested is neither written nor recorded; one without a row
-- is not paused.
create or replace function windlass.set_paused(queue text, paused boolean) returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  perform windlass.check_no_tenant('a queue');
  perform windlass.check_not_null(jsonb_build_object('queue', queue, 'paused', paused));
  if paused and queue !~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$' then
    raise exception 'queue must be letters, digits and . _ : - up to 100' using errcode = 'WL007', column = 'queue';
  end if;
  if paused then
    insert into windlass.queues (name, is_paused) values (queue, true)
      on conflict (name) do update set is_paused = true, updated_at = now() where not queues.is_paused;
  else
    update windlass.queues q set is_paused = false, updated_at = now() where q.name = queue and q.is_paused;
  end if;
  if found then
    perform windlass.record_act(null, case when paused then 'queue.pause' else 'queue.resume' end, queue, null,
      jsonb_build_object('is_paused', paused));
  end if;
end
$$;
