-- What a claim needs to see that a job is too late to start, places in line that do not move, and what keepers set aside.
set local role windlass_owner;

-- The instant by which the job must have begun its first attempt, where its definition sets one. The same instant is in `expiry`, by
-- time, for the keeper; here a claim sees it in the row that it reads anyway.
alter table windlass.job add column start_by timestamptz;
update windlass.job b set start_by = e.expires_at from windlass.expiry e
 where e.only_unstarted and e.tenant_id = b.tenant_id and e.job_id = b.id;

-- Where in the row's 64 numbers each of its ids stands, once one was taken out of the middle; null while they stand side by side.
alter table windlass.line add column offsets smallint[];

-- Rows that a keeper's duty could not deal with and set aside, each with the reason. The other rows go on. A row that is dealt with later
-- is cleared; what is not seen again is removed by age (see trouble/note.sql). Bounded in size: it is a report, not a log.
create table windlass.trouble (
  duty text not null,
  tenant_id uuid not null,
  subject text not null,
  reason text not null,
  since timestamptz not null default clock_timestamp(),
  seen_at timestamptz not null default clock_timestamp(),
  times integer not null default 1,
  primary key (tenant_id, duty, subject)
);
create index trouble_by_age on windlass.trouble (seen_at);

-- Its answer has a column more.
drop function if exists windlass.maintain_partitions(integer);
