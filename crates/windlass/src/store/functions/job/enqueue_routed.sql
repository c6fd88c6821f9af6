-- The fast path: the caller (our Rust code) has validated the payload and found the lane, and the job has no guard.
-- `extra` contains the rare columns; it is null for most jobs. created_at is the statement's timestamp, as in
-- enqueue_routed_many, so enqueue_as can return it without a lookup. Our processes are trusted to have routed the job;
-- the lane of an application is checked (see check_routed).
-- Trap: no SET clause and no unqualified name or operator, so the caller's search_path has no effect. Setting and
-- resetting search_path took about 20 of 145 us in one run on PostgreSQL 15, on a busy machine. Whether one statement
-- with three parts is slower than three plain inserts was not measured conclusively.
create or replace function windlass.enqueue_routed(
  tenant uuid, job uuid, lane integer, max_attempts smallint, payload json, extra jsonb)
returns void
language plpgsql security definer
as $$
declare
  place bigint;
  is_application boolean;
begin
  if extra is not null then
    perform windlass.enqueue_routed_many(array[$1], array[$2], array[$3], array[$4], array[1], array[$5], array[$6]);
    return;
  end if;
  is_application := not windlass.routes_jobs();
  if is_application then
    perform windlass.check_routed(array[$1], array[$2], array[$3], array[$4], null, array[$5], null);
  else
    perform windlass.check_own_session();
  end if;
  if not is_application and pg_catalog.length(pg_catalog.current_setting('windlass.tenant_id', true)) operator(pg_catalog.>) 0
      and pg_catalog.current_setting('windlass.tenant_id', true)::pg_catalog.uuid operator(pg_catalog.<>) $1 then
    perform windlass.tenants_for(array[$1]); -- refuses; unlike tenant_for it sets its search path
  end if;
  if pg_catalog.current_setting('synchronous_commit') operator(pg_catalog.=) 'off' then
    perform pg_catalog.set_config('synchronous_commit', 'on', true); -- like stay_durable, without the call
  end if;
  if pg_catalog.num_nulls($1, $2, $3, $4, $5) operator(pg_catalog.>) 0 then
    perform windlass.check_not_null(pg_catalog.jsonb_build_object('tenant', $1, 'job', $2, 'lane', $3, 'max_attempts', $4, 'payload', $5));
  elsif $2 operator(pg_catalog.=) '00000000-0000-0000-0000-000000000000'
     or $2 operator(pg_catalog.=) 'ffffffff-ffff-ffff-ffff-ffffffffffff' then
    perform windlass.check_ids(array[$2]); -- refuses
  end if;
  place := pg_catalog.nextval('windlass.line_seq');
  insert into windlass.job (tenant_id, id, created_at, lane, source, max_attempts, line_seq, payload)
    values ($1, $2, pg_catalog.statement_timestamp(), $3, 1, $4, place, $5);
  insert into windlass.line (tenant_id, seq, lane, max_attempts, ids) values ($1, place, $3, $4, array[$2]);
  insert into windlass.tally (tenant_id, lane, queued) values ($1, $3, 1);
  if is_application then
    perform windlass.set_start_deadlines(array[$1], array[$2], array[$3]);
  end if;
  -- The caller's knowledge of the lane may be a few seconds old: its tenant may no longer accept jobs, or may have a
  -- quota now. Reading the tenant would cost every enqueue two more relations, so it is read only while some tenant is
  -- watched. The flags are read by a function, because reading them as relations costs 1 us each.
  if pg_catalog.pg_sequence_last_value('windlass.tenants_watched'::pg_catalog.regclass) operator(pg_catalog.>) 0 then
    perform windlass.check_watched($1);
  end if;
  if pg_catalog.pg_sequence_last_value('windlass.workers_wait'::pg_catalog.regclass) operator(pg_catalog.>) 0 then
    perform pg_catalog.pg_notify('windlass', pg_catalog.int4out($3)::pg_catalog.text);
  end if;
  if pg_catalog.current_setting('transaction_isolation') operator(pg_catalog.<>) 'read committed' then
    perform windlass.check_tenants_active(array[$1]); -- its snapshot may be older than the change behind the flag
  end if;
end
$$;
