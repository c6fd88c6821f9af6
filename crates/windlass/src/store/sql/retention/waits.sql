-- Jobs past their retention whose artifact is being removed, longest first, with the state of the job that removes it.
select to_jsonb(w) || jsonb_build_object('cleanup_status', windlass.state_of(w.tenant_id, w.cleanup_job_id))
  from windlass.purge_wait w where w.tenant_id = $1 order by w.since, w.job_id limit $2
