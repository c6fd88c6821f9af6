-- Gives back, uncharged, what a remote claim took whose answer never came: nobody knows the fences of these jobs.
-- Index: none, a walk over the leases in force, which happens once per broken connection. Locks: the dispatcher's row
-- first, in a mode that waits for the claim if that is still under way; then as settle_remote.
create or replace function windlass.unclaim_remote(by_worker integer, tokens uuid[]) returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  held record;
  given integer := 0;
begin
  perform from windlass.job_workers w where w.id = by_worker for update;
  for held in
    select r.tenant_id, r.job_id, r.attempt, r.token from windlass.remote_lease r where r.token = any (tokens)
     order by r.tenant_id, r.job_id for update
  loop
    perform windlass.settle_remote(held.tenant_id, held.job_id, held.attempt, held.token,
      '{"outcome": 7, "next": 5, "error": "the answer to the claim was lost"}');
    given := given + 1;
  end loop;
  return given;
end
$$;
