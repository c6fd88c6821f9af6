-- What happened in each quarter of a minute, so that a chart of the last hour or day costs the same whatever the history holds.
set local role windlass_owner;

-- One row per tenant and queue that did or held something in the slot; under the nil tenant the sum over all tenants.
-- succeeded, failed: attempts that ended so. queued, running: jobs at the slot's end.
create table windlass.activity (
  tenant_id uuid not null,
  queue text not null,
  at timestamptz not null,
  succeeded bigint not null,
  failed bigint not null,
  queued bigint not null,
  running bigint not null,
  primary key (tenant_id, queue, at)
);
create index activity_by_time on windlass.activity (at);

-- Tenants as people look for them: by name, a page at a time.
create index tenants_by_name on windlass.tenants (lower(name), id);
