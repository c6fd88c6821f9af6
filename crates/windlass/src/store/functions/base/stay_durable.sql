-- Switches synchronous_commit on for this transaction if it is off: a caller must not disable durability, because `off`
-- lost acknowledged jobs on a kill -9 of the server.
create or replace function windlass.stay_durable() returns void
language plpgsql
as $$
begin
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'on', true);
  end if;
end
$$;
