-- Starts a browser session and ends the browser's previous one. A person's session starts only if the compared password
-- is still current: the account is locked, so a change of the password is either visible here, or sees this session and
-- ends it. At most fifty sessions per person or token: the oldest ends. Deletes expired sessions too. A person's
-- session starts with the tenant of their oldest membership; a super-admin's with none. Returns false if it did not
-- start.
create or replace function windlass.create_session(
  hash bytea, of_user uuid, of_token text, compared_hash text, replaced bytea, seconds integer, from_address text, user_agent text)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  if seconds not between 0 and 2592000 then
    perform windlass.raise_span('seconds', 0, 2592000);
  end if;
  perform windlass.check_read_committed();
  perform windlass.check_not_null(jsonb_build_object('hash', hash, 'seconds', seconds));
  if num_nonnulls(of_user, of_token) = 2 then
    raise exception 'a session is that of a person or of a token, not of both' using errcode = 'WL007', column = 'of_token';
  elsif of_user is not null then
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
        where m.user_id = of_user order by m.created_at, m.tenant_id limit 1))
    on conflict do nothing;
  if not found then
    perform windlass.raise_used('hash', 'sessions_pkey');
  end if;
  perform windlass.record_act(windlass.tenant_of_person(), 'session.begin', coalesce('user:' || of_user, 'token:' || of_token));
  return true;
end
$$;

-- The identity of a session that has not expired: a person with their tenants, or a token.
create or replace function windlass.find_session(hash bytea) returns jsonb
language sql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select jsonb_build_object('user_id', s.user_id, 'token_id', s.token_id, 'chosen_tenant', s.chosen_tenant,
           'email', u.email, 'name', u.name, 'is_super_admin', coalesce(u.is_super_admin, false),
           'members', coalesce((select jsonb_agg(jsonb_build_object('tenant_id', m.tenant_id, 'slug', t.slug, 'name', t.name, 'role',
                                  m.role, 'requests_per_minute', t.requests_per_minute) order by m.created_at)
                         from windlass.members m join windlass.tenants t on t.id = m.tenant_id and t.status <> 'deleting'
                        where m.user_id = s.user_id), '[]'))
    from windlass.sessions s left join windlass.users u on u.id = s.user_id
   where s.secret_hash = hash and s.expires_at > clock_timestamp() and (s.user_id is null or u.is_active)
$$;

-- Sets the tenant that a session works with.
create or replace function windlass.choose_tenant(hash bytea, tenant uuid) returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  perform windlass.tenant_for(tenant);
  perform windlass.check_not_null(jsonb_build_object('tenant', tenant));
  update windlass.sessions s set chosen_tenant = tenant where s.secret_hash = hash;
  if found then
    perform windlass.record_act(tenant, 'session.tenant', tenant::text);
  end if;
end
$$;

-- Ends a session. Returns whether there was one.
create or replace function windlass.end_session(hash bytea) returns boolean
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  ended text;
begin
  delete from windlass.sessions s where s.secret_hash = hash returning coalesce('user:' || s.user_id, 'token:' || s.token_id) into ended;
  if not found then
    return false;
  end if;
  perform windlass.record_act(windlass.tenant_of_person(), 'session.end', ended);
  return true;
end
$$;
