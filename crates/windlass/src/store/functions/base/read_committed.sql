-- Refuses (WL021) a transaction with a fixed snapshot. A function that takes a lock and then reads what others
-- committed before needs a new snapshot for each statement: with an old one, a running limit is exceeded, a legal hold
-- is missed, or a partition with a newly committed job is dropped. Enqueue, emit, cancel, retry and settle do not need
-- it and work in any transaction. docs/operating.md lists the functions that call this.
create or replace function windlass.check_read_committed() returns void
language plpgsql stable
as $$
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception 'this function requires the isolation level read committed; the transaction has %',
      current_setting('transaction_isolation')
      using errcode = 'WL021', hint = 'begin with: begin isolation level read committed';
  end if;
end
$$;
