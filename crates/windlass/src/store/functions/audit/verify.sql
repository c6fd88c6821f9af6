-- Walks each tenant's chain and says what is wrong with it: a row that was changed, a row that is gone, a place that is
-- missing, a row that was never chained although later ones are. No row: all is well. Reads everything, so it costs by its size.
create or replace function windlass.verify_audit()
returns table (tenant_id uuid, place bigint, audit_id bigint, problem text)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  link record;
  chain uuid;
  previous bytea;
  reached bigint;
begin
  for link in
    select s.tenant_id, s.position, s.audit_id, s.hash, a as entry
      from windlass.audit_seals s left join windlass.audit a on a.tenant_id = s.tenant_id and a.id = s.audit_id
     order by s.tenant_id, s.position
  loop
    if link.tenant_id is distinct from chain then
      chain := link.tenant_id;
      previous := '';
      reached := 0;
    end if;
    if link.position <> reached + 1 then
      return query select chain, reached + 1, null::bigint, 'a place of the chain is missing';
    elsif (link.entry).id is null then
      return query select chain, link.position, link.audit_id, 'the row is gone';
    elsif windlass.audit_hash(previous, link.entry) <> link.hash then
      return query select chain, link.position, link.audit_id, 'the row, or the one before it, was changed';
    end if;
    previous := link.hash;
    reached := link.position;
  end loop;
  return query
    select a.tenant_id, null::bigint, a.id, 'the row is not in the chain'
      from windlass.audit a
     where (a.xid, a.id) < (select s.xid, s.audit_id from windlass.audit_seals s order by s.xid desc, s.audit_id desc limit 1)
       and not exists (select from windlass.audit_seals s where s.xid = a.xid and s.audit_id = a.id);
end
$$;
