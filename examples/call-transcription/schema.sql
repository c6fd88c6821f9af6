-- The files that the pipeline created for each call, for the application's own pages. The path is the key: a stage that runs
-- twice inserts its row once.
create table if not exists call_artifacts (
  org_id text not null,
  call_id text not null,
  kind text not null check (kind in ('audio', 'transcript', 'analysis')),
  path text not null,
  created_at timestamptz not null default now(),
  primary key (org_id, call_id, kind)
);
