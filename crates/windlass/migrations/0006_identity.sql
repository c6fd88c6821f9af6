-- Identity: users, members, tokens, sessions, the audit trail, and the stored responses to requests with an idempotency
-- key. Quotas of tenants.
set local role windlass_owner;

-- max_queued: the maximum number of unfinished jobs; max_running: the maximum number of running jobs;
-- requests_per_minute: over all tokens and sessions of the tenant. Null: no limit.
alter table windlass.tenants
  add column max_queued bigint,
  add column max_running integer,
  add column requests_per_minute integer,
  add column purged_jobs bigint not null default 0,
  add constraint tenants_max_queued_range check (max_queued between 0 and 1000000000),
  add constraint tenants_max_running_range check (max_running between 1 and 1000000),
  add constraint tenants_requests_range check (requests_per_minute between 1 and 10000000);

-- The same limit for the jobs of one definition, over all tenants. With the partial indexes a claim sees at once that
-- nothing is limited.
alter table windlass.job_definitions
  add column max_running integer,
  add constraint job_definitions_max_running_range check (max_running between 1 and 1000000);
create index job_definitions_limited on windlass.job_definitions (id) where max_running is not null;
create index tenants_limited on windlass.tenants (id) where max_running is not null;
create index lane_by_definition on windlass.lane (definition_id);

-- A person. The password is an argon2 hash in its text form; without one, signing in by password is not possible.
create table windlass.users (
  id uuid primary key default gen_random_uuid(),
  email text not null,
  name text not null default '',
  password_hash text,
  is_super_admin boolean not null default false,
  is_active boolean not null default true,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint users_email_unique unique (email),
  constraint users_email_form check (email = lower(email) and email ~ '^[^@\s]+@[^@\s]+$' and length(email) <= 320)
);

create table windlass.members (
  tenant_id uuid not null references windlass.tenants (id),
  user_id uuid not null references windlass.users (id) on delete cascade,
  role text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (tenant_id, user_id),
  constraint members_role_known check (role in ('viewer', 'operator', 'tenant_admin'))
);
create index members_by_user on windlass.members (user_id);

-- tenant_id is nil (all zeroes) for the installation's own tokens. Found by id alone, before the tenant is known; ids
-- are random, so they need no separate uniqueness. `replaced_by` and `expires_at` implement a rotation with overlap.
create table windlass.api_tokens (
  tenant_id uuid not null,
  id text not null,
  kind text not null,
  name text not null,
  secret_hash bytea not null,
  role text not null,
  scopes text[],
  created_by text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz,
  replaced_by text,
  primary key (tenant_id, id),
  constraint api_tokens_kind_known check (kind in ('api', 'worker', 'admin')),
  constraint api_tokens_role_known check (role in ('viewer', 'operator', 'tenant_admin', 'worker', 'super_admin')),
  constraint api_tokens_role_fits_kind check ((kind = 'admin') = (role = 'super_admin') and (kind = 'worker') = (role = 'worker')),
  constraint api_tokens_tenant_fits_role check (role = 'worker'
    or (tenant_id = '00000000-0000-0000-0000-000000000000') = (role = 'super_admin')),
  constraint api_tokens_name_length check (length(name) between 1 and 200)
);
create index api_tokens_by_id on windlass.api_tokens (id);

-- A signed-in browser: of a person, or of the holder of a token. Only the hash of its cookie is stored. chosen_tenant:
-- the tenant that is shown, if there are several.
create table windlass.sessions (
  secret_hash bytea primary key,
  user_id uuid references windlass.users (id) on delete cascade,
  token_id text,
  chosen_tenant uuid,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  from_address text,
  user_agent text,
  constraint sessions_of_one check ((user_id is null) <> (token_id is null))
);
create index sessions_by_user on windlass.sessions (user_id);
create index sessions_by_expiry on windlass.sessions (expires_at);

-- The response to a request with an Idempotency-Key, which is returned again if the request is repeated.
create table windlass.request_keys (
  tenant_id uuid not null,
  request_key text not null,
  fingerprint bytea not null,
  status smallint,
  answer jsonb,
  created_at timestamptz not null default now(),
  primary key (tenant_id, request_key)
);
create index request_keys_by_age on windlass.request_keys (created_at);

-- Who, in which role, from where, and what changed; actions of the installation belong to the nil tenant. Rows are
-- chained after they are committed, in the order of (xid, id): once every transaction below an xid has ended, no row
-- can appear before it.
alter table windlass.audit
  add column role text,
  add column outcome text not null default 'done',
  add column from_address text,
  add column request_id text,
  add column before jsonb,
  add column after jsonb,
  add column xid xid8 not null default pg_current_xact_id(),
  add constraint audit_outcome_known check (outcome in ('done', 'denied'));
create index audit_by_xid on windlass.audit (xid, id);
create index audit_by_id on windlass.audit (id);

-- The hash chain of each tenant's audit rows: hash = sha256(previous hash, row). A row is written once.
create table windlass.audit_seals (
  tenant_id uuid not null,
  position bigint not null,
  audit_id bigint not null,
  xid xid8 not null,
  hash bytea not null,
  sealed_at timestamptz not null default now(),
  primary key (tenant_id, position)
);
create index audit_seals_by_xid on windlass.audit_seals (xid, audit_id);
