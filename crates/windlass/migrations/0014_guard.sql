-- The outbox by tenant, so that one tenant's events do not wait for another's; and the reason why an event stays there.
set local role windlass_owner;

-- bytes: the size of the payload, so that a batch can be limited without reading payloads. after_trigger: the triggers
-- up to this id are done, for an event that matches too many of them for one transaction. problem: why it could not be
-- dispatched; it is tried again at retry_at.
alter table windlass.event_pending
  add column bytes integer not null default 0,
  add column after_trigger uuid,
  add column problem text,
  add column retry_at timestamptz;
update windlass.event_pending p set bytes = octet_length(e.payload::text)
  from windlass.event e where e.tenant_id = p.tenant_id and e.id = p.event_id;

drop index windlass.event_pending_in_line;
create index event_pending_of_tenant on windlass.event_pending (tenant_id, seq) where retry_at is null;
create index event_pending_held_back on windlass.event_pending (retry_at) where retry_at is not null;

-- Searches match redacted texts, which SQL cannot compute.
drop function if exists windlass.searchable(json);

-- Their results have more columns.
drop function if exists windlass.pending_events(integer, integer, integer);
drop function if exists windlass.event_triggers(uuid[]);
drop function if exists windlass.dispatch_events(
  uuid[], uuid[], integer[], uuid[], integer[], text[], uuid[], text[], jsonb[], text[], integer[]);

-- Their arguments have changed.
drop function if exists windlass.settle(uuid[], uuid[], integer[], uuid[], integer[], jsonb[], integer[]);
drop function if exists windlass.expire_these(uuid, uuid[]);
drop function if exists windlass.unblock_wave(uuid, uuid[], uuid[]);
drop function if exists windlass.expire(integer);
drop function if exists windlass.promote(integer);
drop function if exists windlass.unblock_all(integer);
drop function if exists windlass.unblock_new(integer);

-- The sessions of a token are counted when another starts.
create index sessions_by_token on windlass.sessions (token_id) where token_id is not null;

-- Their arguments or results have more columns.
drop function if exists windlass.create_session(bytea, uuid, text, integer, text, text);
drop function if exists windlass.end_session(bytea);
drop function if exists windlass.find_token(text);
drop function if exists windlass.tokens_of(uuid);

-- Due rows by tenant, so that tenants take turns if one round cannot process all that is due.
create index deferred_of_tenant on windlass.deferred (tenant_id, due_at);
create index expiry_of_tenant on windlass.expiry (tenant_id, expires_at);
create index purge_wait_of_tenant on windlass.purge_wait (tenant_id, checked_at);
create index job_triggers_due_of_tenant on windlass.job_triggers (tenant_id, next_due_at) where next_due_at is not null;
drop function if exists windlass.due_triggers(integer, integer);

-- max_triggers: a keeper checks every trigger of a tenant for each event, and those of all tenants every minute.
alter table windlass.tenants
  add column max_triggers integer not null default 1000,
  add constraint tenants_max_triggers_range check (max_triggers between 1 and 100000);

-- The workers of one tenant that are present; see pull_register.
create index job_workers_of_tenant on windlass.job_workers (right(worker_id, 36)) where stopped_at is null;
