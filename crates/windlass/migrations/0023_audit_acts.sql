-- One row of the audit trail for each act of a transaction: see functions/audit/due.sql. after_audit: the last row that the transaction had
-- written before the act; a row before it does not describe the act. audit_id: the row that describes it, once it is known; such rows are
-- kept until the last act of the transaction has one.
set local role windlass_owner;

alter table windlass.audit_due add column after_audit bigint not null default 0, add column audit_id bigint;
create index audit_due_by_id on windlass.audit_due (id);
create index audit_due_by_audit on windlass.audit_due (audit_id);
