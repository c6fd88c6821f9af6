-- Enqueues many jobs of one lane with the same number of attempts and no rare columns, in the given order: the fast
-- path of a bulk enqueue. They are queued 64 to a row. The caller has validated and routed them, as for enqueue_routed.
-- Trap: `unnest` is in the select list, because in FROM each array would need its own tuple store.
create or replace function windlass.enqueue_alike(
  tenant uuid, in_lane integer, max_attempts smallint, jobs uuid[], payloads json[])
returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  n integer := cardinality(jobs);
  seqs bigint[];
  places bigint[];
begin
  perform windlass.check_routed(array[tenant], jobs, array[in_lane], array[enqueue_alike.max_attempts], null, payloads, null);
  seqs := array(select nextval('windlass.line_seq') from generate_series(1, (n + 63) / 64));
  places := array(select seqs[(g + 63) / 64] from generate_series(1, n) g);
  perform windlass.stay_durable();
  insert into windlass.job (tenant_id, id, created_at, lane, source, max_attempts, line_seq, payload)
    select tenant, unnest(jobs), statement_timestamp(), in_lane, 1, enqueue_alike.max_attempts, unnest(places), unnest(payloads);
  insert into windlass.line (tenant_id, seq, lane, max_attempts, ids)
    select tenant, seqs[g], in_lane, enqueue_alike.max_attempts, jobs[64 * g - 63 : 64 * g] from generate_subscripts(seqs, 1) g;
  insert into windlass.tally (tenant_id, lane, queued) values (tenant, in_lane, n);
  if n > 0 then
    perform windlass.set_start_deadlines(array_fill(tenant, array[n]), jobs, array_fill(in_lane, array[n]));
  end if;
  perform windlass.check_tenants_active(array[tenant]);
  perform windlass.limit_to_quota(tenant, n);
  perform windlass.notify_lane(in_lane);
end
$$;
