-- Invitations and password resets, and the ends of the audit chains.
set local role windlass_owner;

-- A membership that was offered to an address. To accept it, a person shows the secret of the link, of which only the
-- hash is stored, and signs in to the account of that address or creates it. One open invitation per address: a new one
-- replaces it.
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

-- A link that sets a new password. by_tenant: the tenant whose administrator created it, nil for the installation. The
-- permission of that administrator is checked again when the link is used. One link per account: a new one replaces it.
create table windlass.password_resets (
  user_id uuid primary key references windlass.users (id) on delete cascade,
  by_tenant uuid not null,
  secret_hash bytea not null,
  created_by text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index password_resets_by_secret on windlass.password_resets (secret_hash);

-- The progress of sealing. Every row of this cluster with a smaller transaction id is sealed. A database that was
-- restored into another cluster finds a different identifier here and starts again with the transaction ids of the new
-- one.
create table windlass.audit_sealer (
  is_only boolean primary key default true,
  cluster bigint not null,
  xid xid8 not null,
  constraint audit_sealer_one_row check (is_only)
);

-- The form of the row's link: see audit_link.
alter table windlass.audit_seals add column form smallint not null default 1;
create index audit_seals_unread on windlass.audit_seals (tenant_id) where form = 3;

-- The last link of each chain, stored outside the chain: rows missing from its end are detected by it.
create table windlass.audit_heads (
  tenant_id uuid primary key,
  position bigint not null,
  hash bytea not null,
  sealed_at timestamptz not null default now()
);
insert into windlass.audit_heads (tenant_id, position, hash, sealed_at)
  select distinct on (s.tenant_id) s.tenant_id, s.position, s.hash, s.sealed_at
    from windlass.audit_seals s order by s.tenant_id, s.position desc;
