-- Limits on the cost that one tenant can cause for all others.
set local role windlass_owner;

-- A tenant chooses queues and priorities per job, and each combination is a lane that workers have to check. max_lanes:
-- the maximum number of lanes; max_queue_names: the maximum number of distinct queues among them. A lane of a
-- definition's own queue and priority is never refused.
alter table windlass.tenants
  add column max_lanes integer not null default 1000,
  add column max_queue_names integer not null default 200,
  add constraint tenants_max_lanes_range check (max_lanes between 1 and 100000),
  add constraint tenants_max_queue_names_range check (max_queue_names between 1 and 100000);

-- Two flags that every enqueue reads. They are sequences and not rows, because a sequence has one version: with rows,
-- each change left a dead one, and while an old transaction kept those from being removed, every enqueue read all of
-- them (20,000 changes: 2.7 ms). workers_wait: 1 while `waiting` has a row, so that enqueues send notifications.
-- tenants_watched: 1 while the fast paths have to check the tenant, because one is being deleted or has a quota.
-- `wait.sql` and `watch.sql` maintain them.
create sequence windlass.workers_wait minvalue 0 start 0;
create sequence windlass.tenants_watched minvalue 0 start 0;

-- The end times in order. It was a BRIN index, which stores a time range per range of pages: if retention is shorter
-- than a partition's week, new rows fill the gaps of deleted ones, every range covers the whole week, and each scan
-- read every page.
drop index windlass.history_by_time;
create index history_by_time on windlass.history (finished_at);
