-- The workers that an operator drains. They were marked in job_workers, so that heartbeats waited for the open transaction of an operator.
set local role windlass_owner;

create table windlass.drain_request (
  worker integer primary key references windlass.job_workers (id) on delete cascade,
  worker_id text not null
);
insert into windlass.drain_request (worker, worker_id) select id, worker_id from windlass.job_workers where is_draining;

-- A view of another program may use the column. It stays then, and the doctor reports it.
do $$
begin
  alter table windlass.job_workers drop column is_draining;
exception when dependent_objects_still_exist then
  null;
end
$$;
