-- The bulk way in: the caller (our Rust code) has filled pg_temp.windlass_inbox by COPY, and this moves it into line in one
-- statement per table. COPY straight into the tables is not to be had: Postgres refuses it under row-level security.
-- The inbox is the caller's, and this runs as the owner, so it must be a plain table: reading a view, or a table with
-- policies, would run the caller's code with the owner's rights. Its `part` is as in enqueue_routed_many. Returns how many
-- jobs came in.
create or replace function windlass.enqueue_copied() returns bigint
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  came bigint;
  seqs bigint[];
begin
  if not exists (select from pg_class c where c.oid = to_regclass('pg_temp.windlass_inbox') and c.relkind = 'r' and not c.relrowsecurity) then
    raise exception 'pg_temp.windlass_inbox is not a plain table' using errcode = 'WL007', column = 'windlass_inbox';
  end if;
  perform windlass.tenant_for(n.tenant) from (select distinct tenant from pg_temp.windlass_inbox) n;
  perform windlass.stay_durable();
  seqs := array(select nextval('windlass.line_seq') from generate_series(1, (select max(n.part) from pg_temp.windlass_inbox n)));
  insert into windlass.job (tenant_id, id, created_at, lane, source, max_attempts, line_seq, payload, created_by, parent_id,
      source_ref, correlation_id, subject_type, subject_id, trace, tags)
    select n.tenant, n.job, statement_timestamp(), n.lane, coalesce(windlass.source_code(x.source), 1), n.max_attempts, seqs[n.part], n.payload,
           x.created_by, x.parent_id, x.source_ref, x.correlation_id, x.subject_type, x.subject_id, x.trace, x.tags
      from pg_temp.windlass_inbox n
      left join lateral jsonb_to_record(n.extra) x (source text, created_by uuid, parent_id uuid, source_ref text,
        correlation_id text, subject_type text, subject_id text, trace text, tags text[]) on n.extra is not null;
  get diagnostics came = row_count;
  insert into windlass.line (tenant_id, seq, lane, max_attempts, ids)
    select n.tenant, seqs[n.part], n.lane, n.max_attempts, array_agg(n.job order by n.ctid) from pg_temp.windlass_inbox n
     group by n.tenant, n.part, n.lane, n.max_attempts;
  insert into windlass.tally (tenant_id, lane, queued)
    select n.tenant, n.lane, count(*) from pg_temp.windlass_inbox n group by n.tenant, n.lane;
  perform windlass.refuse_tenant(array(select distinct n.tenant from pg_temp.windlass_inbox n));
  if exists (select from windlass.waiting) then
    perform pg_notify('windlass', n.lane::text) from (select distinct n.lane from pg_temp.windlass_inbox n limit 64) n;
  end if;
  return came;
end
$$;
