-- The application: workspaces, their members, the accounts they sync, and the posts of these accounts. Run once, after
-- `windlass migrate`: `psql "$DATABASE_URL" -f schema.sql`. Five calls to `windlass.` are all that concerns the queue.

do $$ begin create role authenticated nologin; exception when duplicate_object or unique_violation then null; end $$;
do $$ begin create role service_role nologin; exception when duplicate_object or unique_violation then null; end $$;
do $$ begin create role workspace_keeper nologin; exception when duplicate_object or unique_violation then null; end $$;
-- The service enqueues and reads. Creating and deleting tenants needs the role windlass_server, which no application should
-- have: three functions below have it instead, through their owner.
grant windlass_app to service_role;
grant windlass_server to workspace_keeper;
grant usage on schema public to authenticated;
grant usage, create on schema public to service_role, workspace_keeper;

-- The definition: one job per post forever, three attempts, succeeded jobs are deleted after seven days.
select windlass.define('{
  "key": "ai-tagging",
  "description": "Tags a synced post",
  "arg_schema": {
    "type": "object",
    "properties": {"post_id": {"type": "string", "format": "uuid"}},
    "required": ["post_id"],
    "additionalProperties": false
  },
  "max_attempts": 3,
  "backoff": {"kind": "exponential", "base_seconds": 5, "factor": 2, "cap_seconds": 60, "jitter": 0.2},
  "timeout_seconds": 120,
  "uniqueness": "forever",
  "retention": {"succeeded": 604800}
}');

-- Everything below belongs to the service. Members have only the grants at the end, and none on windlass.
set role service_role;

-- A workspace is a tenant of windlass, with its own share of the workers, its own limits and its own rows.
create table workspaces (
  id uuid primary key,
  slug text not null unique,
  name text not null
);

create table workspace_members (
  workspace_id uuid not null references workspaces (id) on delete cascade,
  user_id uuid not null,
  primary key (workspace_id, user_id)
);

create table workspace_threads_accounts (
  id uuid primary key default gen_random_uuid(),
  workspace_id uuid not null references workspaces (id) on delete cascade,
  handle text not null
);

-- The workspace is copied from the account, because the posts of an account are deleted after it.
create table workspace_threads_posts (
  id uuid primary key default gen_random_uuid(),
  workspace_threads_account_id uuid not null references workspace_threads_accounts (id) on delete cascade,
  workspace_id uuid not null,
  content text not null,
  ai_tags text[],
  tagged_at timestamptz
);

-- The usage of each call to the model, by attempt.
create table llm_usage_logs (
  job_id uuid not null,
  attempt_no integer not null,
  post_id uuid not null references workspace_threads_posts (id) on delete cascade,
  model text not null,
  input_characters integer not null,
  created_at timestamptz not null default now(),
  primary key (job_id, attempt_no)
);

create function open_workspace() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  new.id := windlass.ensure_tenant(new.slug, new.name, 1);
  return new;
end
$$;
create trigger open_workspace before insert on workspaces for each row execute function open_workspace();

-- Deletes the tenant after everything that cascades from it (triggers run in order of their names, and `RI_…` is first).
create function close_workspace() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform set_config('windlass.tenant_id', old.id::text, true);
  while not (select done from windlass.purge_tenant(old.id, 1000)) loop
  end loop;
  return null;
end
$$;
create trigger close_workspace after delete on workspaces for each row execute function close_workspace();

create function name_workspace() returns trigger language plpgsql as $$
begin
  select a.workspace_id into strict new.workspace_id from workspace_threads_accounts a where a.id = new.workspace_threads_account_id;
  return new;
end
$$;
create trigger name_workspace before insert on workspace_threads_posts for each row execute function name_workspace();

-- Sets the workspace as the current tenant of the transaction, because an application acts only for the current tenant.
-- The post and its job commit together. A post that is synced again is updated, not inserted, and already has its job.
create function enqueue_ai_tagging() returns trigger language plpgsql as $$
begin
  perform set_config('windlass.tenant_id', new.workspace_id::text, true);
  perform windlass.enqueue('ai-tagging', jsonb_build_object('post_id', new.id), tenant_id => new.workspace_id,
    dedupe_key => 'post ' || new.id, subject_type => 'post', subject_id => new.id::text,
    correlation_id => new.workspace_threads_account_id::text);
  return null;
end
$$;
create trigger enqueue_ai_tagging after insert on workspace_threads_posts for each row execute function enqueue_ai_tagging();

-- Deletes the jobs of a post in any state together with the post, and frees their dedupe key.
create function forget_ai_tagging() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform set_config('windlass.tenant_id', old.workspace_id::text, true);
  perform windlass.purge_subject(old.workspace_id, 'post', old.id::text);
  return null;
end
$$;
create trigger forget_ai_tagging after delete on workspace_threads_posts for each row execute function forget_ai_tagging();

-- The function calls these for each batch to read the posts and write the tags. Both are idempotent.
create function posts_to_tag(posts uuid[]) returns jsonb language sql stable as $$
  select coalesce(jsonb_object_agg(p.id, p.content), '{}') from workspace_threads_posts p where p.id = any (posts)
$$;

create function save_ai_tags(outcomes jsonb) returns void language sql as $$
  update workspace_threads_posts p set ai_tags = o.tags, tagged_at = now()
    from jsonb_to_recordset(outcomes) o (post_id uuid, tags text[]) where p.id = o.post_id;
  insert into llm_usage_logs (job_id, attempt_no, post_id, model, input_characters)
    select o.job_id, o.attempt_no, o.post_id, o.model, o.input_characters
      from jsonb_to_recordset(outcomes) o (job_id uuid, attempt_no integer, post_id uuid, model text, input_characters integer)
      join workspace_threads_posts p on p.id = o.post_id
    on conflict do nothing;
$$;

reset role;
alter function open_workspace() owner to workspace_keeper;
alter function close_workspace() owner to workspace_keeper;
alter function forget_ai_tagging() owner to workspace_keeper;
