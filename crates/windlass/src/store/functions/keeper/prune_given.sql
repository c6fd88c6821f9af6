-- Deletes jobs of large partitions that are not replaced (see partition_look): rules have passed over those that were due
-- until then, so each such partition is read once from its first job on, in pages of `most` bodies. Jobs that become due
-- later are found by their rules. Works for a second, on the oldest partition first. Returns the number of processed jobs, and
-- at least `most` if there are more.
create or replace function windlass.prune_given_back(most integer) returns integer
language plpgsql
as $$
#variable_conflict use_column
declare
  began constant timestamptz := clock_timestamp();
  look windlass.partition_look;
  to_key uuid[];
  batch record;
  dealt record;
  handled integer := 0;
begin
  loop
    select * into look from windlass.partition_look l where l.is_pruned and l.pruned_to is not null order by l.low limit 1;
    if not found then
      return handled;
    elsif handled >= most or clock_timestamp() - began > interval '1 s' then
      return greatest(handled, most);
    end if;
    to_key := windlass.page_end(look.low, look.high, look.pruned_to, most);
    for batch in
      select d.tenant_id, d.lane, d.status, d.keep, array_agg(d.job_id) as jobs
        from windlass.due_jobs(look.low, look.high, look.pruned_to, to_key) d
       where not exists (select from windlass.purge_wait w where w.tenant_id = d.tenant_id and w.job_id = d.job_id)
         and not exists (select from windlass.prune_passed p where p.tenant_id = d.tenant_id and p.job_id = d.job_id)
       group by d.tenant_id, d.lane, d.status, d.keep
    loop
      if clock_timestamp() - began > interval '5 s' then -- each tenant's locks can delay it; the rule returns to them
        insert into windlass.prune_passed (tenant_id, job_id) select batch.tenant_id, j from unnest(batch.jobs) j on conflict do nothing;
        continue;
      end if;
      select * into dealt from windlass.prune_jobs(batch.tenant_id, batch.jobs, batch.status, clock_timestamp() - batch.keep);
      perform windlass.count_pruned(array[batch.tenant_id], array[batch.lane], array[batch.status], array[dealt.gone::bigint]);
      handled := handled + dealt.handled;
    end loop;
    update windlass.partition_look l set pruned_to = nullif(to_key, windlass.last_key()) where l.low = look.low;
  end loop;
end
$$;
