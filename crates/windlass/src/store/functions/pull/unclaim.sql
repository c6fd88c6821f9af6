-- Releases the jobs of a pull claim whose response was lost: no worker knows their fences. Not counted as a failure. A
-- job that another transaction has locked is left to the reaper, because its lease expires. Ends the epoch of the
-- claim, so that it takes nothing if it runs later (see unclaim).
-- Index: none; scans the current leases, once per broken connection.
-- Lock order: the dispatcher's row first, in a mode that waits for a claim in progress; then as in pull_settle.
create or replace function windlass.pull_unclaim(by_worker integer, tokens uuid[], of_epoch integer) returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  held record;
  given integer := 0;
begin
  if not windlass.is_list(tokens) then
    perform windlass.raise_array();
  end if;
  perform windlass.check_read_committed();
  perform windlass.end_epoch(by_worker, of_epoch);
  for held in
    select r.tenant_id, r.job_id, r.attempt, r.token from windlass.pull_lease r
      join windlass.live l on l.tenant_id = r.tenant_id and l.job_id = r.job_id
     where r.token = any (tokens) order by r.tenant_id, r.job_id for update of r, l skip locked
  loop
    perform windlass.pull_settle(held.tenant_id, held.job_id, held.attempt, held.token,
      jsonb_build_object('outcome', windlass.outcome_code('released'), 'next', windlass.state_code('queued'),
        'error', 'the response to the claim was lost'));
    given := given + 1;
  end loop;
  return given;
end
$$;
