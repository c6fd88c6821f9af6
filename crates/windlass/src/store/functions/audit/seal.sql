-- Adds at most `most` committed audit rows to the hash chains, each tenant's after its last link. Runs in the keeper
-- and not in the recorded action: otherwise all actions of a tenant would wait for each other. Rows are chained in the
-- order of (xid, id), below the oldest transaction in progress, so no row can appear later before a chained one. A
-- transaction that has written and stays open delays the chain until it ends.
--
-- Transaction ids order the rows of one cluster only. In a database that was restored into another cluster, old rows
-- have ids that the new cluster may not reach for years, and new rows have smaller ids than chained ones. So the
-- cluster's identifier is stored with the mark. If it differs, all rows that are not chained are searched once: every
-- visible row is committed, and only rows of transactions in progress are left for later rounds.
--
-- A row that is too large to be hashed as one text, or that cannot be read, is chained in another form (see audit_link)
-- and recorded in `problem`. It does not keep other rows from the chain.
-- Index: audit_by_xid, audit_seals_by_xid, audit_heads_pkey. Lock: the gate `seal`, so one sealer runs at a time.
create or replace function windlass.seal_audit(most integer default 1000, out moved integer, out has_more boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  now_running pg_snapshot := pg_current_snapshot();
  this_cluster bigint := (select c.system_identifier from pg_control_system() c);
  mark record;
  entry windlass.audit;
  chain uuid;
  reached bigint;
  link bytea;
  form smallint;
begin
  moved := 0;
  has_more := false;
  -- Most rounds find nothing. They return here without a write or a lock.
  select m.cluster = this_cluster as is_here, m.xid into mark from windlass.audit_sealer m;
  if (mark.is_here and not exists (select from windlass.unsealed_audit(mark.xid, now_running, 1))) or not windlass.try_gate('seal') then
    return;
  end if;
  select m.cluster = this_cluster as is_here, m.xid into mark from windlass.audit_sealer m;
  for entry in
    select b.* from windlass.unsealed_audit(case when mark.is_here then mark.xid end, now_running, most) b order by b.tenant_id, b.xid, b.id
  loop
    if entry.tenant_id is distinct from chain then
      if chain is not null then
        perform windlass.remember_head(chain, reached, link);
      end if;
      chain := entry.tenant_id;
      -- Continue from the head: if links were removed, a gap remains. If the head was removed, continue from the last
      -- link.
      select e.position, e.hash into reached, link
        from (select h.position, h.hash from windlass.audit_heads h where h.tenant_id = chain
              union all
              (select s.position, s.hash from windlass.audit_seals s where s.tenant_id = chain order by s.position desc limit 1)) e
       order by e.position desc limit 1;
    end if;
    reached := coalesce(reached, 0) + 1;
    begin
      form := 1;
      link := windlass.audit_hash(coalesce(link, ''), entry);
    exception when others then
      select o.link, o.form into link, form from windlass.other_audit_link(coalesce(link, ''), entry, sqlstate, sqlerrm) o;
    end;
    insert into windlass.audit_seals (tenant_id, position, audit_id, xid, hash, form)
      values (chain, reached, entry.id, entry.xid, link, form);
    moved := moved + 1;
  end loop;
  if chain is not null then
    perform windlass.remember_head(chain, reached, link);
  end if;
  has_more := moved >= most;
  if not has_more then
    insert into windlass.audit_sealer as m (cluster, xid) values (this_cluster, pg_snapshot_xmin(now_running))
      on conflict (is_only) do update set cluster = excluded.cluster, xid = excluded.xid
      where (m.cluster, m.xid) is distinct from (excluded.cluster, excluded.xid);
  end if;
end
$$;

-- The rows to be chained next. `above`: all rows below it are chained; null if that is not known for this cluster. A
-- visible row with an id that this cluster has not assigned yet comes from another cluster.
create or replace function windlass.unsealed_audit(above xid8, now_running pg_snapshot, most integer) returns setof windlass.audit
language plpgsql stable
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if above is not null then
    return query select a.* from windlass.audit a
      where a.xid >= above and a.xid < pg_snapshot_xmin(now_running)
        and not exists (select from windlass.audit_seals s where s.xid = a.xid and s.audit_id = a.id)
      order by a.xid, a.id limit most;
  else
    return query select a.* from windlass.audit a
      where (a.xid < pg_snapshot_xmin(now_running) or a.xid >= pg_snapshot_xmax(now_running))
        and not exists (select from windlass.audit_seals s where s.xid = a.xid and s.audit_id = a.id)
      order by a.xid, a.id limit most;
  end if;
end
$$;

-- Stores the end of a chain outside the chain.
create or replace function windlass.remember_head(of_tenant uuid, reached bigint, link bytea) returns void
language sql
set search_path = pg_catalog, windlass, pg_temp
as $$
  insert into windlass.audit_heads as h (tenant_id, position, hash) values (of_tenant, reached, link)
    on conflict (tenant_id) do update set position = excluded.position, hash = excluded.hash, sealed_at = now()
    where h.position < excluded.position
$$;

-- Ensures that a head only moves forward.
create or replace function windlass.refuse_backward() returns trigger
language plpgsql
as $$
begin
  if tg_op operator(pg_catalog.=) 'UPDATE' and new.tenant_id operator(pg_catalog.=) old.tenant_id
      and new.position operator(pg_catalog.>) old.position then
    return new;
  end if;
  raise exception 'the head of an audit chain only moves forward' using errcode = 'WL003', detail = old.tenant_id;
end
$$;
-- Only if they are missing: creating a trigger waits for every transaction that has a lock on the table, even one that
-- only prepared a write.
do $$
begin
  if not exists (select from pg_trigger t where t.tgrelid = 'windlass.audit_heads'::regclass and t.tgname = 'only_forward') then
    create trigger only_forward before update or delete on windlass.audit_heads
      for each row execute function windlass.refuse_backward();
  end if;
  if not exists (select from pg_trigger t where t.tgrelid = 'windlass.audit_heads'::regclass and t.tgname = 'append_only') then
    create trigger append_only before truncate on windlass.audit_heads
      for each statement execute function windlass.refuse_change();
  end if;
end
$$;

-- The hash of a link of form 1: the previous hash and a canonical form of the row. Uses no table, so it is inlined into
-- the calling statement and not planned for every row.
create or replace function windlass.audit_hash(previous bytea, entry windlass.audit) returns bytea
language sql stable
as $$
  select sha256(previous || convert_to(jsonb_build_array(entry.id, entry.tenant_id, extract(epoch from entry.at), entry.actor, entry.role,
           entry.action, entry.target, entry.outcome, entry.from_address, entry.request_id, entry.detail, entry.before,
             entry.after)::text, 'UTF8'))
$$;
