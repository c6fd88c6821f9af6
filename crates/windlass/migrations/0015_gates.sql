-- Rows that serve as locks, and opaque numbers for the limits that workers wait for.
set local role windlass_owner;

-- A function that must run one at a time locks a row here first (base/gate.sql). Not an advisory lock: every login may
-- take those, and pg_locks shows their keys, so a login without other privileges could block claims. Only the owner can
-- read or lock these rows. of_id: a tenant, a definition, or nil for all. number: sent in notifications instead of a
-- name. turn: the last transaction that wrote the row, if it is written and not only locked.
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

-- Its result has another column.
drop function if exists windlass.active_lanes(text[], text[]);
