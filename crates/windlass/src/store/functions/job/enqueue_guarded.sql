-- Adds a new job as queued, scheduled or blocked, or detects a duplicate. The caller inserts the body, with the
-- returned line_seq. `request` is the fingerprint of all parameters under an idempotency key. A duplicate of a purged
-- job has no status: its key is kept longer than the job.
-- Lock order: the idempotency row, the dedupe row (see take_dedupe_key), the ordering row, the bodies of the jobs that
-- it waits for (so that none is deleted before the dependency is visible). A batch with keys locks them before its first
-- job (see lock_keys; invariants 21 to 24, 31).
create or replace function windlass.enqueue_guarded(
  tenant uuid, new_id uuid, at timestamptz, lane integer, max_attempts smallint, uniqueness jsonb,
  start_deadline_seconds integer, starts_at timestamptz, deadline timestamptz,
  dedupe_key text, idempotency_key text, request bytea, ordering_key text, depends_on uuid[], if_unmet text,
  out id uuid, out status text, out is_duplicate boolean, out line_seq bigint)
language plpgsql
set jit = off
as $$
#variable_conflict use_column
declare
  holds boolean := false;
  held record;
  previous uuid;
begin
  id := new_id;
  is_duplicate := false;

  if idempotency_key is not null then
    loop
      insert into windlass.idempotency (tenant_id, idempotency_key, job_id, body_hash, created_at)
        values (tenant, enqueue_guarded.idempotency_key, new_id, request, at) on conflict do nothing;
      exit when found;
      select i.job_id, i.body_hash into held from windlass.idempotency i
       where i.tenant_id = tenant and i.idempotency_key = enqueue_guarded.idempotency_key;
      if found and held.body_hash = ''::bytea then
        update windlass.idempotency i set job_id = new_id, body_hash = request, created_at = at -- locked by lock_keys
         where i.tenant_id = tenant and i.idempotency_key = enqueue_guarded.idempotency_key and i.body_hash = ''::bytea;
        exit when found;
      elsif found and held.body_hash <> request then
        raise exception 'the idempotency key was already used for another job' using errcode = 'WL006', detail = held.job_id::text;
      elsif found then
        id := held.job_id;
        status := windlass.state_of(tenant, id);
        is_duplicate := true;
        return;
      end if; -- pruned between the two statements: try again
    end loop;
  end if;

  if dedupe_key is not null then
    if not windlass.is_uniqueness(uniqueness) then
      uniqueness := '"active"'; -- stored before it was validated; the doctor reports it
    end if;
    holds := uniqueness = '"active"';
    select k.holder into held from windlass.take_dedupe_key(tenant, enqueue_guarded.dedupe_key, new_id,
      coalesce(at + make_interval(secs => (uniqueness ->> 'window_seconds')::double precision), 'infinity'), holds, at) k;
    if held.holder is not null then
      -- Another job satisfies the request, so its idempotency key must refer to that job.
      update windlass.idempotency i set job_id = held.holder
       where i.tenant_id = tenant and i.idempotency_key = enqueue_guarded.idempotency_key;
      id := held.holder;
      status := windlass.state_of(tenant, id);
      is_duplicate := true;
      return;
    end if;
  end if;

  if ordering_key is not null then
    loop
      insert into windlass.ordering (tenant_id, ordering_key, last_job_id) values (tenant, enqueue_guarded.ordering_key, new_id)
        on conflict do nothing;
      exit when found;
      select o.last_job_id into previous from windlass.ordering o
       where o.tenant_id = tenant and o.ordering_key = enqueue_guarded.ordering_key for update;
      exit when found; -- otherwise purged with its last job between the two statements: try again
    end loop;
    if previous is not null then
      update windlass.ordering o set last_job_id = new_id
       where o.tenant_id = tenant and o.ordering_key = enqueue_guarded.ordering_key;
      perform from windlass.job b where b.tenant_id = tenant and b.id = previous for key share;
      if not found then
        -- Purged: the jobs that it waited for must still run before this one.
        insert into windlass.dependency (tenant_id, needs_job_id, job_id, if_unmet, is_ordering)
          select tenant, d.needs_job_id, new_id, coalesce(enqueue_guarded.if_unmet, 'wait'), true from windlass.dependency d
           where d.tenant_id = tenant and d.job_id = previous;
        if found and current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
          -- Fails (40001) if one of them was retried since the snapshot, in which it has ended. An open retry of one holds
          -- the key's row.
          perform from windlass.history h
            where h.tenant_id = tenant and h.job_status is not null
              and h.job_id in (select d.needs_job_id from windlass.dependency d where d.tenant_id = tenant and d.job_id = new_id)
            for share skip locked;
        else
          previous := case when found then previous end;
        end if;
      elsif enqueue_guarded.if_unmet is distinct from 'run' or windlass.holds_ordering_key(tenant, previous) then
        insert into windlass.dependency (tenant_id, needs_job_id, job_id, if_unmet, is_ordering)
          values (tenant, previous, new_id, coalesce(enqueue_guarded.if_unmet, 'wait'), true);
      else
        previous := null;
      end if;
    end if;
  end if;

  if depends_on <> '{}' then
    perform windlass.depend_on(tenant, new_id, depends_on, enqueue_guarded.if_unmet, enqueue_guarded.ordering_key);
  end if;

  insert into windlass.expiry (tenant_id, job_id, expires_at, only_unstarted)
    select tenant, new_id, e.expires_at, e.only_unstarted
      from (values (case when deadline < at then at else deadline end, false), -- a past deadline gets no precedence
                   (coalesce(starts_at, at) + make_interval(secs => start_deadline_seconds), true)) e (expires_at, only_unstarted)
     where e.expires_at is not null;

  if previous is not null or depends_on <> '{}' then
    insert into windlass.blocked (tenant_id, job_id, lane, max_attempts, holds_dedupe, scheduled_for)
      values (tenant, new_id, lane, max_attempts, holds, starts_at);
    insert into windlass.tally (tenant_id, lane, blocked) values (tenant, lane, 1);
    status := 'blocked';
  elsif starts_at is not null then
    insert into windlass.deferred (tenant_id, job_id, due_at, lane, max_attempts, holds_dedupe)
      values (tenant, new_id, starts_at, lane, max_attempts, holds);
    insert into windlass.tally (tenant_id, lane, scheduled) values (tenant, lane, 1);
    status := 'scheduled';
  else
    insert into windlass.line (tenant_id, lane, max_attempts, holds_dedupe, ids)
      values (tenant, lane, max_attempts, holds, array[new_id]) returning seq into line_seq;
    insert into windlass.tally (tenant_id, lane, queued) values (tenant, lane, 1);
    status := 'queued';
  end if;
end
$$;

-- Takes a dedupe key for a job, or returns the job that holds it and until when. Waits for an uncommitted row: if its
-- transaction rolls back, the new row is inserted. A key that another job holds is read but not locked: the caller's
-- transaction may stay open for minutes, and the holder's end, which releases the key, must not wait for it. For a batch
-- that has locked its keys, a key that was held then is still held (see lock_keys).
create or replace function windlass.take_dedupe_key(
  tenant uuid, key text, job uuid, holds_until timestamptz, is_released_at_end boolean, at timestamptz, out holder uuid,
  out held_until timestamptz)
language plpgsql
as $$
#variable_conflict use_column
begin
  if current_setting('windlass.keys_locked', true) = 'on' then
    select d.job_id, d.until into holder, held_until from windlass.dedupe d
     where d.tenant_id = tenant and d.dedupe_key = windlass.key_note(key);
    if found then
      return;
    end if;
  end if;
  loop
    insert into windlass.dedupe (tenant_id, dedupe_key, job_id, until, released_at_end)
      values (tenant, key, job, holds_until, is_released_at_end)
      on conflict do nothing;
    exit when found;
    select d.job_id, d.until into holder, held_until from windlass.dedupe d where d.tenant_id = tenant and d.dedupe_key = key;
    if found and held_until > at then
      return;
    end if;
    update windlass.dedupe d set job_id = job, until = holds_until, released_at_end = is_released_at_end
     where d.tenant_id = tenant and d.dedupe_key = key and d.until <= at;
    exit when found; -- otherwise released, or taken, between the statements: try again
  end loop;
  holder := null;
  held_until := null;
end
$$;
