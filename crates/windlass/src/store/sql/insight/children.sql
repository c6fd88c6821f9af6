-- Ids of the jobs whose parent is $2, oldest first. Index: job_by_parent.
select b.id from windlass.job b where b.tenant_id = $1 and b.parent_id = $2 order by b.id limit $3
