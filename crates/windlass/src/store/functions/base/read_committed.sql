-- Refuses (WL021) a transaction that sees one snapshot throughout. Whoever takes a lock and then looks at what others did before it
-- needs a new snapshot for each statement: with an old one a running limit is exceeded, a hold is passed over, a partition is
-- dropped under a job that was just committed. Enqueue, emit, cancel and retry do not need it and may be part of any transaction.
create or replace function windlass.need_read_committed() returns void
language plpgsql stable
as $$
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception 'this function needs the isolation level read committed, and the transaction has %', current_setting('transaction_isolation')
      using errcode = 'WL021', hint = 'begin with: begin isolation level read committed';
  end if;
end
$$;
