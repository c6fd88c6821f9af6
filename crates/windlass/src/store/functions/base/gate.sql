-- Locks that only functions of the owner can take, until the end of the transaction: rows of `gate` (decision 0016).
--
-- A row that is only locked tells a transaction nothing about what others did before it, so whoever locks and then looks must be
-- read committed (see need_read_committed). Where callers may have any isolation level, take_turn writes the row instead: with an
-- older snapshot that fails (40001).
-- Index: gate's primary key. Locking leaves no dead row, so a gate may be locked by every claim.

-- One at a time. The row is made on first use: a second one who makes it waits for the first, and then locks it.
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

-- Together with others who share it, and not with one who has locked it.
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

-- For what one process does for everybody: answers false if another one is at it.
create or replace function windlass.try_gate(for_purpose text) returns boolean
language plpgsql
as $$
begin
  perform windlass.need_read_committed();
  perform from windlass.gate g where g.of_id = '00000000-0000-0000-0000-000000000000' and g.purpose = for_purpose for update skip locked;
  return found;
end
$$;

-- One at a time, for callers of any isolation level: what is looked at afterwards is what those before it committed, or it fails (40001).
create or replace function windlass.take_turn(for_id uuid, for_purpose text) returns void
language plpgsql
as $$
begin
  if exists (select from windlass.gate g where g.of_id = for_id and g.purpose = for_purpose and g.turn = pg_current_xact_id()) then
    return;
  end if;
  insert into windlass.gate as g (of_id, purpose, turn) values (for_id, for_purpose, pg_current_xact_id())
    on conflict (of_id, purpose) do update set turn = excluded.turn;
end
$$;
