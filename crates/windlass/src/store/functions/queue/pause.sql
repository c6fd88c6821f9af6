-- Pauses or resumes a queue: workers leave its lanes alone from their next look, within a poll interval. A queue is every tenant's, so
-- nobody acts on it for one of them.
create or replace function windlass.set_paused(queue text, paused boolean) returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  perform windlass.need_no_tenant('a queue');
  insert into windlass.queues (name, is_paused) values ($1, $2)
    on conflict (name) do update set is_paused = excluded.is_paused, updated_at = now();
end
$$;
