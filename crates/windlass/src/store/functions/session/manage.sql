-- Begins a session of a browser and ends the one that the browser had. A person's begins only if the password that was compared is
-- still theirs: the account is locked, so a change of the password either is seen here or sees this session and ends it. At most
-- fifty of one person or token: the oldest ends. Sessions that have expired are swept, so that nobody has to. A person's looks at
-- the tenant that they have been a member of for longest, until they choose another; a super-admin's at none. False: it did not begin.
create or replace function windlass.create_session(
  hash bytea, of_user uuid, of_token text, compared_hash text, replaced bytea, seconds integer, from_address text, user_agent text)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  perform windlass.need_read_committed();
  if of_user is not null then
    perform from windlass.users u where u.id = of_user and u.is_active and u.password_hash = compared_hash for no key update;
  else
    perform from windlass.api_tokens t where t.id = of_token and t.revoked_at is null for no key update;
  end if;
  if not found then
    return false;
  end if;
  delete from windlass.sessions s where s.secret_hash = any (array(
    select x.secret_hash from windlass.sessions x where x.expires_at < now() limit 1000 for update skip locked));
  delete from windlass.sessions s where s.secret_hash = replaced or s.secret_hash = any (array(
    select x.secret_hash from windlass.sessions x where x.user_id = of_user or x.token_id = of_token
     order by x.created_at desc, x.secret_hash offset 49));
  insert into windlass.sessions (secret_hash, user_id, token_id, created_at, expires_at, from_address, user_agent, chosen_tenant)
    values (hash, of_user, of_token, clock_timestamp(), clock_timestamp() + make_interval(secs => seconds), create_session.from_address,
      create_session.user_agent,
      (select m.tenant_id from windlass.members m join windlass.tenants t on t.id = m.tenant_id and t.status <> 'deleting'
         join windlass.users u on u.id = m.user_id and not u.is_super_admin
        where m.user_id = of_user order by m.created_at, m.tenant_id limit 1));
  return true;
end
$$;

-- Who is behind a session that has not expired: a person with the tenants they are a member of, or a token.
create or replace function windlass.find_session(hash bytea) returns jsonb
language sql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select jsonb_build_object('user_id', s.user_id, 'token_id', s.token_id, 'chosen_tenant', s.chosen_tenant,
           'email', u.email, 'name', u.name, 'is_super_admin', coalesce(u.is_super_admin, false),
           'members', coalesce((select jsonb_agg(jsonb_build_object('tenant_id', m.tenant_id, 'slug', t.slug, 'name', t.name, 'role', m.role,
                                  'requests_per_minute', t.requests_per_minute) order by m.created_at)
                         from windlass.members m join windlass.tenants t on t.id = m.tenant_id and t.status <> 'deleting'
                        where m.user_id = s.user_id), '[]'))
    from windlass.sessions s left join windlass.users u on u.id = s.user_id
   where s.secret_hash = hash and s.expires_at > clock_timestamp() and (s.user_id is null or u.is_active)
$$;

create or replace function windlass.choose_tenant(hash bytea, tenant uuid) returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  perform windlass.tenant_for(tenant);
  update windlass.sessions s set chosen_tenant = tenant where s.secret_hash = hash;
end
$$;

-- Answers whether there was one.
create or replace function windlass.end_session(hash bytea) returns boolean
language sql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  with ended as (delete from windlass.sessions s where s.secret_hash = hash returning true)
  select exists (select from ended)
$$;
