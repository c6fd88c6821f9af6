-- Chains the audit rows that are committed and not chained yet, at most `most` of them, each tenant's after its last one.
-- Off the way of the acts themselves: a chain written with each act would make all of a tenant's acts wait for each other.
-- In the order of (xid, id), below the oldest transaction still at work: nothing can come before what is chained. A
-- transaction that writes and stays open holds the chain back as long as it does.
-- Index: audit_by_xid, audit_seals_by_xid, audit_seals_pkey. One sealer at a time.
create or replace function windlass.seal_audit(most integer) returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  entry record;
  last record;
  sealed integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtext('windlass.seal_audit')) then
    return 0;
  end if;
  select s.xid, s.audit_id into last from windlass.audit_seals s order by s.xid desc, s.audit_id desc limit 1;
  for entry in
    select a.tenant_id, a.id, a.xid from windlass.audit a
     where (last.xid is null or (a.xid, a.id) > (last.xid, last.audit_id))
       and a.xid < pg_snapshot_xmin(pg_current_snapshot())
     order by a.xid, a.id limit most
  loop
    insert into windlass.audit_seals (tenant_id, position, audit_id, xid, hash)
      select entry.tenant_id, coalesce(max(p.position), 0) + 1, entry.id, entry.xid,
             windlass.audit_hash(coalesce((array_agg(p.hash))[1], ''), entry.tenant_id, entry.id)
        from (select s.position, s.hash from windlass.audit_seals s where s.tenant_id = entry.tenant_id
               order by s.position desc limit 1) p;
    sealed := sealed + 1;
  end loop;
  return sealed;
end
$$;

-- What one link of the chain is: the hash before it, and the row in one form only.
create or replace function windlass.audit_hash(previous bytea, of_tenant uuid, of_id bigint) returns bytea
language sql stable
as $$
  select sha256(previous || convert_to(jsonb_build_array(a.id, a.tenant_id, extract(epoch from a.at), a.actor, a.role, a.action, a.target,
           a.outcome, a.from_address, a.request_id, a.detail, a.before, a.after)::text, 'UTF8'))
    from windlass.audit a where a.tenant_id = of_tenant and a.id = of_id
$$;
