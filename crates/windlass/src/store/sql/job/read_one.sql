-- One job by id, with the redaction of its definition. Planned for its values: this plan has one partition of each table, and that of
-- read.sql has all of them, and locks them at each call.
select j.*, (select d.redaction from windlass.job_definitions d where d.id = j.definition_id) as redaction
  from (select * from windlass.jobs v where v.tenant_id = $1 and v.id = $2 offset 0) j
