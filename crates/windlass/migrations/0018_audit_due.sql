-- The rows of the audit trail that a transaction has to contain when it commits: see functions/audit/due.sql. A row is deleted by the
-- transaction that inserted it.
set local role windlass_owner;

create table windlass.audit_due (
  tenant_id uuid not null,
  id bigint generated always as identity,
  actions text[] not null,
  target text not null,
  before jsonb,
  after jsonb,
  primary key (tenant_id, id)
);
