-- Locks that only functions of the owner can take, held until the end of the transaction: rows of `gate` (decision
-- 0016).
--
-- A row lock does not give a transaction a newer snapshot, so a function that locks and then reads must run at read
-- committed (see check_read_committed). For callers of any isolation level, take_turn writes the row: with an older
-- snapshot that fails (40001).
-- Index: gate's primary key. A lock leaves no dead row, so every claim can lock a gate.

-- Exclusive lock. The row is created on first use: a second transaction that creates it waits for the first and then
-- locks it.
create or replace function windlass.lock_gate(for_id uuid, for_purpose text) returns void
language plpgsql
as $$
begin
  loop
    perform from windlass.gate g where g.of_id = for_id and g.purpose = for_purpose for update;
    exit when found;
    insert into windlass.gate (of_id, purpose) values (for_id, for_purpose) on conflict do nothing;
    exit when found;
  end loop;
end
$$;

-- Exclusive lock for work that can be skipped. Returns false if another transaction holds it, immediately or after a tenth
-- of a second.
create or replace function windlass.try_lock_gate(for_id uuid, for_purpose text, waits boolean) returns boolean
language plpgsql
as $$
begin
  perform from windlass.gate g where g.of_id = for_id and g.purpose = for_purpose for update skip locked;
  return found or waits and windlass.lock_gate_in_time(for_id, for_purpose);
end
$$;

create or replace function windlass.lock_gate_in_time(for_id uuid, for_purpose text) returns boolean
language plpgsql
set lock_timeout = '100ms'
as $$
begin
  perform windlass.lock_gate(for_id, for_purpose);
  return true;
exception when lock_not_available or deadlock_detected then
  return false;
end
$$;

-- Shared lock, which conflicts with lock_gate.
create or replace function windlass.share_gate(for_id uuid, for_purpose text) returns void
language plpgsql
as $$
begin
  loop
    perform from windlass.gate g where g.of_id = for_id and g.purpose = for_purpose for share;
    exit when found;
    insert into windlass.gate (of_id, purpose) values (for_id, for_purpose) on conflict do nothing;
    exit when found;
  end loop;
end
$$;

-- Shared lock for duties of the keeper. Returns false if an open transaction holds a conflicting lock_gate: the caller
-- leaves the rows of that tenant for a later round. Waits (for as long as lock_timeout) only for a transaction that is
-- creating the row.
create or replace function windlass.try_share_gate(for_id uuid, for_purpose text) returns boolean
language plpgsql
as $$
begin
  perform from windlass.gate g where g.of_id = for_id and g.purpose = for_purpose for share skip locked;
  if found then
    return true;
  elsif exists (select from windlass.gate g where g.of_id = for_id and g.purpose = for_purpose) then
    return false;
  end if;
  insert into windlass.gate (of_id, purpose) values (for_id, for_purpose) on conflict do nothing;
  return found;
exception when lock_not_available or deadlock_detected then
  return false;
end
$$;

-- Exclusive lock for work that one process does for all. Returns false if another process holds it.
create or replace function windlass.try_gate(for_purpose text) returns boolean
language plpgsql
as $$
begin
  perform windlass.check_read_committed();
  perform from windlass.gate g where g.of_id = '00000000-0000-0000-0000-000000000000' and g.purpose = for_purpose for update skip locked;
  return found;
end
$$;

-- Raises WL016, for functions that wait only briefly (lock_timeout) for a row that an open transaction of an application
-- can lock for any time. The hint says what to do.
create or replace function windlass.raise_locked(what text) returns void
language plpgsql
as $$
begin
  raise exception '% is locked by an open transaction; nothing was changed', what
    using errcode = 'WL016', detail = what,
          hint = 'Try again when that transaction has ended. "windlass doctor" names old ones; pg_terminate_backend() ends one.';
end
$$;

-- Exclusive lock for callers of any isolation level: later reads see what previous holders committed, or the call fails
-- (40001).
create or replace function windlass.take_turn(for_id uuid, for_purpose text) returns void
language plpgsql
as $$
begin
  if exists (select from windlass.gate g where g.of_id = for_id and g.purpose = for_purpose and g.turn = pg_current_xact_id()) then
    return;
  end if;
  -- An insert takes a number of the sequence even if the row exists, and numbers are never given back.
  update windlass.gate g set turn = pg_current_xact_id() where g.of_id = for_id and g.purpose = for_purpose;
  if not found then
    insert into windlass.gate as g (of_id, purpose, turn) values (for_id, for_purpose, pg_current_xact_id())
      on conflict (of_id, purpose) do update set turn = excluded.turn;
  end if;
end
$$;
