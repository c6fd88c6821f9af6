-- Activity per quarter of a minute, so that the cost of a chart of the last hour or day does not depend on the size of
-- history.
set local role windlass_owner;

-- One row per tenant and queue that had activity or jobs in the slot; the nil tenant has the sum over all tenants.
-- succeeded, failed: attempts that ended with this result. queued, running: jobs at the end of the slot.
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

-- Tenants as people search for them: by name, a page at a time.
create index tenants_by_name on windlass.tenants (lower(name), id);
