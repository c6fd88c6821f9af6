-- The workers that an operator drains. They were marked in job_workers, so that heartbeats waited for the open transaction of an operator.
-- The column is_draining is no longer used. It stays, because the previous release and its functions read it; see drain.sql.
set local role windlass_owner;

create table windlass.drain_request (
  worker integer primary key references windlass.job_workers (id) on delete cascade,
  worker_id text not null
);
insert into windlass.drain_request (worker, worker_id) select id, worker_id from windlass.job_workers where is_draining;
