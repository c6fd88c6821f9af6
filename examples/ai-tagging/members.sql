-- What members can read, as in the old schema: the rows of their workspaces. They can write none. Run after schema.sql.
set role service_role;

create function is_workspace_member(workspace uuid) returns boolean language sql stable security definer
set search_path = public, pg_temp
as $$
  select exists (select from workspace_members m where m.workspace_id = workspace
    and m.user_id = (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub')::uuid)
$$;

alter table workspace_threads_posts enable row level security;
create policy "Members can view posts" on workspace_threads_posts for select to authenticated using (is_workspace_member(workspace_id));

-- The queue under its old name and columns. Each workspace of the member is set as the current tenant in turn, so the
-- row-level security of windlass applies too; afterwards the previous current tenant is restored.
create function ai_tag_queue_rows() returns table (
  id uuid, workspace_threads_account_id uuid, post_id uuid, status text, attempts integer, max_attempts integer,
  error_message text, created_at timestamptz, started_at timestamptz, completed_at timestamptz)
language plpgsql security definer
set search_path = public, pg_temp
as $$
declare
  workspace uuid;
  before text := coalesce(current_setting('windlass.tenant_id', true), '');
begin
  for workspace in select w.id from workspaces w where is_workspace_member(w.id) loop
    perform set_config('windlass.tenant_id', workspace::text, true);
    return query
      select j.id, p.workspace_threads_account_id, p.id,
             case when j.status in ('succeeded') then 'completed'
                  when j.status in ('failed', 'dead_letter', 'canceled') then 'failed'
                  when j.status = 'running' then 'processing'
                  when j.last_error is not null then 'failed' -- waits for its next attempt
                  else 'pending' end,
             j.attempt_count, j.max_attempts, j.last_error, j.queued_at, j.started_at, j.finished_at
        from windlass.jobs j join workspace_threads_posts p on p.id = j.subject_id::uuid
       where j.definition_key = 'ai-tagging' and j.subject_type = 'post';
  end loop;
  perform set_config('windlass.tenant_id', before, true);
end
$$;
create view ai_tag_queue as select * from ai_tag_queue_rows();

revoke execute on function ai_tag_queue_rows, is_workspace_member, posts_to_tag, save_ai_tags from public;
grant execute on function ai_tag_queue_rows, is_workspace_member to authenticated;
grant select on workspace_threads_posts, ai_tag_queue to authenticated;
