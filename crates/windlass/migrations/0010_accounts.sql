-- Invitations and password resets, and what the audit trail remembers of its own end.
set local role windlass_owner;

-- A membership that an address was offered. Whoever accepts shows the secret of the link, of which only the hash is kept,
-- and signs in to the account of that address, or makes it. One open invitation per address: a new one replaces it.
create table windlass.invitations (
  tenant_id uuid not null references windlass.tenants (id) on delete cascade,
  id uuid not null default gen_random_uuid(),
  email text not null,
  role text not null,
  secret_hash bytea not null,
  created_by text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  primary key (tenant_id, id),
  constraint invitations_role_known check (role in ('viewer', 'operator', 'tenant_admin')),
  constraint invitations_email_form check (email = lower(email) and email ~ '^[^@\s]+@[^@\s]+$' and length(email) <= 320),
  constraint invitations_email_unique unique (tenant_id, email)
);
create index invitations_by_secret on windlass.invitations (secret_hash);

-- A link that sets a new password. by_tenant: the tenant whose administrator made it, nil for the installation's. What that
-- administrator may do is checked again when the link is used. One link per account: a new one replaces it.
create table windlass.password_resets (
  user_id uuid primary key references windlass.users (id) on delete cascade,
  by_tenant uuid not null,
  secret_hash bytea not null,
  created_by text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index password_resets_by_secret on windlass.password_resets (secret_hash);

-- How far sealing has come. Every row of this cluster with a smaller transaction id is sealed. A database that was restored
-- into another cluster finds another identifier here and starts over with the transaction ids of the new one.
create table windlass.audit_sealer (
  is_only boolean primary key default true,
  cluster bigint not null,
  xid xid8 not null,
  constraint audit_sealer_one_row check (is_only)
);

-- How the row went into the chain: see audit_link.
alter table windlass.audit_seals add column form smallint not null default 1;
create index audit_seals_unread on windlass.audit_seals (tenant_id) where form = 3;

-- The last link of each chain, kept apart from the chain: rows missing from the end are found by it.
create table windlass.audit_heads (
  tenant_id uuid primary key,
  position bigint not null,
  hash bytea not null,
  sealed_at timestamptz not null default now()
);
insert into windlass.audit_heads (tenant_id, position, hash, sealed_at)
  select distinct on (s.tenant_id) s.tenant_id, s.position, s.hash, s.sealed_at
    from windlass.audit_seals s order by s.tenant_id, s.position desc;
