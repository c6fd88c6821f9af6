-- The keys that a transaction has locked for a batch: see functions/job/lock_keys.sql. A row is deleted by the transaction
-- that inserted it.
set local role windlass_owner;

create table windlass.key_lock (
  tenant_id uuid not null,
  id bigint generated always as identity,
  idempotency_keys text[],
  dedupe_keys text[],
  ordering_keys text[],
  primary key (tenant_id, id)
);
