-- An id identifies one token of the installation: it is found by its id, before its tenant is known. Ids are random, so a second token
-- with the same id was created to disable the first one. The oldest keeps the id; the others end, and keep it as a part of theirs.
-- audit_due.role: the role that acted, because a transaction can take another one before it commits.
set local role windlass_owner;

update windlass.api_tokens t
   set id = left(t.id, 200) || '-duplicate-' || t.tenant_id, revoked_at = coalesce(t.revoked_at, clock_timestamp())
  from (select d.tenant_id, d.id, row_number() over (partition by d.id order by d.created_at, d.tenant_id) as nth
          from windlass.api_tokens d) n
 where n.tenant_id = t.tenant_id and n.id = t.id and n.nth > 1;
drop index windlass.api_tokens_by_id;
create unique index api_tokens_by_id on windlass.api_tokens (id);

alter table windlass.audit_due add column role text;
