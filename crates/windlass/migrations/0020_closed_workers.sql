-- Closed workers, by the time of their end: for the keeper, which deletes old ones, and for the registration of a pull worker, which
-- deletes those of its tenant above a number.
set local role windlass_owner;

create index job_workers_closed on windlass.job_workers (stopped_at) where stopped_at is not null;
create index job_workers_closed_of_tenant on windlass.job_workers (right(worker_id, 36), stopped_at) where stopped_at is not null;
