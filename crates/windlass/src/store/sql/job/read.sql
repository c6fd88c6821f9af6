-- Jobs by id, in the given order, with the redaction of their definitions; a job that does not exist has no row.
-- `offset 0` prevents the view from being merged into this query: it is then planned for one id, and every part of it
-- is a lookup by primary key. Merged, its eleven tables exceed the planner's join limit and all bodies are read.
select j.*, (select d.redaction from windlass.job_definitions d where d.id = j.definition_id) as redaction
  from unnest($2::uuid[]) with ordinality p (id, ord)
 cross join lateral (select * from windlass.jobs v where v.tenant_id = $1 and v.id = p.id offset 0) j
 order by p.ord
