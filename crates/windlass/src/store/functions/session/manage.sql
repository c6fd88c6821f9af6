-- Begins a session of a browser. Old ones are swept with it, so that nobody has to.
create or replace function windlass.create_session(
  hash bytea, of_user uuid, of_token text, seconds integer, from_address text, user_agent text) returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  delete from windlass.sessions s where s.expires_at < now();
  insert into windlass.sessions (secret_hash, user_id, token_id, expires_at, from_address, user_agent)
    values (hash, of_user, of_token, clock_timestamp() + make_interval(secs => seconds), create_session.from_address, create_session.user_agent);
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
language sql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  update windlass.sessions s set chosen_tenant = tenant where s.secret_hash = hash
$$;

create or replace function windlass.end_session(hash bytea) returns void
language sql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  delete from windlass.sessions s where s.secret_hash = hash
$$;
