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
  last record;
  entry windlass.audit;
  chain uuid;
  reached bigint;
  link bytea;
  sealed integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtext('windlass.seal_audit')) then
    return 0;
  end if;
  select s.xid, s.audit_id into last from windlass.audit_seals s order by s.xid desc, s.audit_id desc limit 1;
  for entry in
    select b.* from (
      select a.* from windlass.audit a
       where (last.xid is null or (a.xid, a.id) > (last.xid, last.audit_id))
         and a.xid < pg_snapshot_xmin(pg_current_snapshot())
       order by a.xid, a.id limit most) b
     order by b.tenant_id, b.xid, b.id
  loop
    if entry.tenant_id is distinct from chain then
      chain := entry.tenant_id;
      select s.position, s.hash into reached, link from windlass.audit_seals s
       where s.tenant_id = chain order by s.position desc limit 1;
    end if;
    reached := coalesce(reached, 0) + 1;
    link := windlass.audit_hash(coalesce(link, ''), entry);
    insert into windlass.audit_seals (tenant_id, position, audit_id, xid, hash) values (chain, reached, entry.id, entry.xid, link);
    sealed := sealed + 1;
  end loop;
  return sealed;
end
$$;

-- What one link of the chain is: the hash before it, and the row in one form only. Without a table in it, so that it is planned
-- with the statement that uses it and not again for every row.
create or replace function windlass.audit_hash(previous bytea, entry windlass.audit) returns bytea
language sql stable
as $$
  select sha256(previous || convert_to(jsonb_build_array(entry.id, entry.tenant_id, extract(epoch from entry.at), entry.actor, entry.role,
           entry.action, entry.target, entry.outcome, entry.from_address, entry.request_id, entry.detail, entry.before, entry.after)::text, 'UTF8'))
$$;
