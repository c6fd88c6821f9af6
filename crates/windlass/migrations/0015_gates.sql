-- Rows that are there to be locked, and opaque numbers for the limits that workers wait at.
set local role windlass_owner;

-- Whoever may do something one at a time locks a row here first (base/gate.sql). Not an advisory lock: every login may take those, and
-- pg_locks shows their keys, so a login that may do nothing else could stop claims. Nobody but the owner may read or lock these rows.
-- of_id: a tenant, a definition, or nil for all together. number: what is said on the channel instead of a name.
-- turn: the last transaction that wrote the row, where it is written and not only locked.
create table windlass.gate (
  of_id uuid not null,
  purpose text not null,
  number integer generated always as identity,
  turn xid8,
  primary key (of_id, purpose)
) with (fillfactor = 50);
insert into windlass.gate (of_id, purpose)
  select '00000000-0000-0000-0000-000000000000', p
    from unnest(array['waiting', 'tenants watched', 'fold', 'prune', 'prune events', 'partitions', 'seal', 'sample']) p;

-- Its answer has a column more.
drop function if exists windlass.active_lanes(text[], text[]);
