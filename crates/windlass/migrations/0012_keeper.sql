-- The instant after which a claim does not start a job, stable positions in the queue, and problems that keepers
-- record.
set local role windlass_owner;

-- The instant by which the first attempt of the job must have started, if its definition sets one. The same instant is
-- in `expiry`, ordered by time, for the keeper; here a claim sees it in a row that it reads anyway.
alter table windlass.job add column start_by timestamptz;
update windlass.job b set start_by = e.expires_at from windlass.expiry e
 where e.only_unstarted and e.tenant_id = b.tenant_id and e.job_id = b.id;

-- The offset of each id within the row's 64 numbers, after one was removed from the middle; null while they are
-- contiguous.
alter table windlass.line add column offsets smallint[];

-- Rows that a keeper duty could not process, each with the reason. The other rows are processed. A row that is
-- processed later is deleted here; one that is not seen again is deleted by age (see problem/note.sql). Bounded in
-- size: it is a report, not a log.
create table windlass.problem (
  duty text not null,
  tenant_id uuid not null,
  subject text not null,
  reason text not null,
  since timestamptz not null default clock_timestamp(),
  seen_at timestamptz not null default clock_timestamp(),
  times integer not null default 1,
  primary key (tenant_id, duty, subject)
);
create index problem_by_age on windlass.problem (seen_at);

-- Its result has another column.
drop function if exists windlass.maintain_partitions(integer);
