-- Verifies each tenant's chain and returns its problems: a changed row, a deleted row, a missing position, a missing
-- end, or a row that was never chained although later ones were. Returns no row if the chains are intact. Reads all
-- rows, so the cost grows with the size of the trail. With a current tenant, verifies only its chain.
create or replace function windlass.verify_audit()
returns table (tenant_id uuid, place bigint, audit_id bigint, problem text)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  only_of constant uuid := case when windlass.current_tenant() is not null then windlass.tenant_for(windlass.current_tenant()) end;
  link record;
  chain uuid;
  previous bytea;
  reached bigint;
  wanted bytea;
begin
  for link in
    select s.tenant_id, s.position, s.audit_id, s.hash, s.form, a as entry
      from windlass.audit_seals s left join windlass.audit a on a.tenant_id = s.tenant_id and a.id = s.audit_id
     where only_of is null or s.tenant_id = only_of
     order by s.tenant_id, s.position
  loop
    if link.tenant_id is distinct from chain then
      chain := link.tenant_id;
      previous := '';
      reached := 0;
    end if;
    if link.position <> reached + 1 then
      return query select chain, reached + 1, null::bigint, 'a position of the chain is missing';
    elsif (link.entry).id is null then
      return query select chain, link.position, link.audit_id, 'the row was deleted';
    else
      begin
        wanted := case link.form when 1 then windlass.audit_hash(previous, link.entry)
          else windlass.audit_link(previous, link.entry, link.form) end;
      exception when data_exception or program_limit_exceeded or internal_error then
        wanted := ''; -- a chained row could be hashed, so it was changed
      end;
      if wanted <> link.hash then
        return query select chain, link.position, link.audit_id, 'the row or the previous row was changed';
      elsif link.form = 3 then
        return query select chain, link.position, link.audit_id,
          'the row could not be read when it was chained; its content cannot be verified';
      end if;
    end if;
    previous := link.hash;
    reached := link.position;
  end loop;
  return query
    select h.tenant_id, h.position, null::bigint, 'the chain no longer contains this position'
      from windlass.audit_heads h
     where (only_of is null or h.tenant_id = only_of)
       and not exists (select from windlass.audit_seals s where s.tenant_id = h.tenant_id and s.position = h.position and s.hash = h.hash);
  return query
    select a.tenant_id, null::bigint, a.id, 'the row is not in the chain'
      from windlass.audit a, windlass.audit_sealer m
     where (only_of is null or a.tenant_id = only_of) and m.cluster = (select c.system_identifier from pg_control_system() c)
       and a.xid < m.xid
       and not exists (select from windlass.audit_seals s where s.xid = a.xid and s.audit_id = a.id);
end
$$;

-- Compares the chains with a checkpoint: for each chain, a position and its hash. Each hash includes the previous one,
-- so a match proves that nothing up to that position was changed. Returns no row if all match.
create or replace function windlass.verify_checkpoint(tenants uuid[], positions bigint[], hashes bytea[])
returns table (tenant_id uuid, place bigint, audit_id bigint, problem text)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  if not (windlass.is_list(tenants) and windlass.is_list(positions) and windlass.is_list(hashes)) then
    perform windlass.raise_array();
  end if;
  perform windlass.tenants_for(tenants);
  return query
    select c.tenant, c.place, s.audit_id,
           case when s.hash is null then 'the chain does not contain this position of the checkpoint'
                else 'the checkpoint has a different hash at this position' end
      from unnest(tenants, positions, hashes) c (tenant, place, hash)
      left join windlass.audit_seals s on s.tenant_id = c.tenant and s.position = c.place
     where s.hash is distinct from c.hash;
end
$$;

-- The last link of a tenant's chain, or of every chain if no tenant is given and there is no current one: a checkpoint.
create or replace function windlass.heads_of(of_tenant uuid) returns setof jsonb
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  if of_tenant is not null then
    perform windlass.tenant_for(of_tenant);
  elsif windlass.current_tenant() is not null then
    of_tenant := windlass.tenant_for(windlass.current_tenant());
  end if;
  return query
    select jsonb_build_object('tenant_id', h.tenant_id, 'position', h.position, 'hash', encode(h.hash, 'hex'), 'sealed_at', h.sealed_at)
      from windlass.audit_heads h where of_tenant is null or h.tenant_id = of_tenant order by h.tenant_id;
end
$$;
