-- The definition of this key, if it has all of these values already. Compared field by field: by containment, a schema that
-- requires less than the old one would count as equal.
create or replace function windlass.unchanged_definition(definition jsonb) returns uuid
language sql stable
as $$
  select d.id from windlass.job_definitions d
   where d.key = definition ->> 'key'
     and not exists (select from jsonb_each(definition) n where to_jsonb(d) -> n.key is distinct from n.value)
$$;

-- Creates or updates a definition, which its callers have checked (see check_definition). Absent fields keep their value or get the
-- default. An unchanged definition is not written, so workers that start at once do not wait for each other's row lock.
-- Only functions of the owner call it: define, create_definition and change_definition, each of which writes a row of the
-- audit trail.
create or replace function windlass.write_definition(definition jsonb) returns uuid
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  is_new boolean;
  had_limit boolean;
  new_id uuid := windlass.unchanged_definition(definition);
  wanted jsonb;
begin
  if new_id is not null then
    return new_id;
  end if;
  insert into windlass.job_definitions (key) values (definition ->> 'key') on conflict (key) do nothing;
  select to_jsonb(d) || definition, d.max_running is not null, d.created_at = now() into wanted, had_limit, is_new
    from windlass.job_definitions d where d.key = definition ->> 'key' for no key update;
  if not ((wanted -> 'min_priority')::integer <= (wanted -> 'priority')::integer
          and (wanted -> 'priority')::integer <= (wanted -> 'max_priority')::integer) then
    raise exception 'priority must be between min_priority and max_priority' using errcode = 'WL007', column = 'priority';
  elsif wanted ->> 'on_purge' = wanted ->> 'key' then
    raise exception 'on_purge must be the key of another definition' using errcode = 'WL007', column = 'on_purge';
  end if;
  update windlass.job_definitions d
     set description = n.description, arg_schema = n.arg_schema, timeout_seconds = n.timeout_seconds, max_attempts = n.max_attempts,
         is_active = n.is_active, queue = n.queue, priority = n.priority, min_priority = n.min_priority, max_priority = n.max_priority,
         max_lost = n.max_lost, max_snoozes = n.max_snoozes, max_running = n.max_running, start_deadline_seconds = n.start_deadline_seconds,
         on_timeout = n.on_timeout, on_lost = n.on_lost, backoff = n.backoff, uniqueness = n.uniqueness, retention = n.retention,
         on_purge = n.on_purge, redaction = n.redaction,
         updated_at = now()
    from jsonb_populate_record(null::windlass.job_definitions, wanted) n
   where d.key = n.key
  returning d.id into new_id;
  -- A definition that this transaction created has no running jobs of others. That there is no lane says nothing: another transaction may
  -- create one, and a third may claim its jobs, before this one commits. Its own jobs have a lane that it sees.
  if wanted ->> 'max_running' is not null and not had_limit
     and not (is_new and not exists (select from windlass.lane n where n.definition_id = new_id)) then
    perform windlass.count_running(new_id);
  end if;
  return new_id;
end
$$;

-- The same for applications, workers and operators, with a row of the audit trail if something changed. Definitions
-- belong to the installation, and so does the row. Workers that start at once call it with what is stored already, so that is
-- compared before anything is locked. What is recorded is read under the lock: a change of another caller, which this one
-- waited for, is not part of it. Waits 3 seconds at most.
create or replace function windlass.define(definition jsonb) returns uuid
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '3s'
as $$
#variable_conflict use_column
declare
  before jsonb;
  after jsonb;
  its_id uuid;
begin
  perform windlass.check_no_tenant('a definition');
  perform windlass.check_definition(definition);
  its_id := windlass.unchanged_definition(definition);
  if its_id is not null then
    return its_id;
  end if;
  insert into windlass.job_definitions (key) values (definition ->> 'key') on conflict (key) do nothing;
  if not found then
    perform from windlass.job_definitions d where d.key = definition ->> 'key' for no key update;
    select windlass.shown_definition(d.id) into before from windlass.job_definitions d where d.key = definition ->> 'key';
  end if;
  its_id := windlass.write_definition(definition);
  after := windlass.shown_definition(its_id);
  if before is distinct from after then
    perform windlass.record_act(null, case when before is null then 'definition.create' else 'definition.change' end, its_id::text,
      before, after);
  end if;
  return its_id;
exception when lock_not_available then
  perform windlass.raise_locked('the definition');
end
$$;
