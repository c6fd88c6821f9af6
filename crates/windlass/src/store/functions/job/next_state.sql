-- The state that the details of a settlement give as next: a final one, or queued or scheduled. Any other would leave the
-- job in no place, so the whole call is refused.
create or replace function windlass.next_state(detail jsonb) returns smallint
language plpgsql immutable
as $$
declare
  state constant smallint := coalesce((detail -> 'next')::smallint, windlass.state_code('succeeded'));
begin
  if state in (windlass.state_code('queued'), windlass.state_code('scheduled'))
     or (windlass.has_ended(state) and windlass.state_name(state) is not null) then
    return state;
  end if;
  raise exception 'next must be the code of a final state, of queued or of scheduled, not %', state
    using errcode = 'WL007', column = 'next';
end
$$;
