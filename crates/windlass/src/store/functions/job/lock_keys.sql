-- Locks the keys of a batch before its first job takes one, in the lock order of decision 0020: the tenant's row if it
-- has a quota; idempotency keys, dedupe keys and ordering keys, each kind in byte order; then the bodies of `needs` and
-- of the last jobs of the ordering keys, by id. A batch that takes the keys job by job, in the order of the caller, takes
-- them in another order than the next batch, and deadlocks with it. Keys that enqueue refuses are left to it.
--
-- A key without a row is locked by inserting one that no job holds: an idempotency key with an empty hash, a dedupe key
-- that has expired, an ordering key whose last job does not exist. The jobs of the batch take these rows over;
-- unlock_keys deletes the others. Applications can call this function, because the library does so with their login, and
-- may not call unlock_keys: so the keys are stored in key_lock, and what is left of them is deleted at the commit.
-- A dedupe key that a job holds is not locked, because the holder's end must not wait for the batch (see
-- take_dedupe_key). It counts as held for the whole batch, even if it is released before its job's turn: taken then, it
-- would be taken after ordering keys and bodies. So that take_dedupe_key knows, its holder is stored in a further row
-- (see key_note), which unlock_keys deletes too. Not with a fixed snapshot, which may show a holder that ended long ago.
-- Dedupe keys are locked one by one: others take and release them while this call waits for the previous ones.
-- Index: the primary keys.
create or replace function windlass.lock_keys(
  tenant uuid, idempotency_keys text[], dedupe_keys text[], ordering_keys text[], needs uuid[]) returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  own constant uuid := windlass.tenant_for(lock_keys.tenant);
  nobody constant uuid := '00000000-0000-0000-0000-000000000000';
  at constant timestamptz := clock_timestamp();
  sees_commits constant boolean := current_setting('transaction_isolation') in ('read committed', 'read uncommitted');
  key text;
  held record;
begin
  if not (windlass.is_list(idempotency_keys) and windlass.is_list(dedupe_keys)
      and windlass.is_list(ordering_keys) and windlass.is_list(needs)) then
    perform windlass.raise_array();
  end if;
  idempotency_keys := nullif(windlass.keys_in_order(idempotency_keys), '{}');
  dedupe_keys := nullif(windlass.keys_in_order(dedupe_keys), '{}');
  ordering_keys := nullif(windlass.keys_in_order(ordering_keys), '{}');
  needs := nullif(needs, '{}');
  perform windlass.lock_quota(own);
  if not exists (select from windlass.tenants t where t.id = own and t.status = 'active') then
    return; -- enqueue refuses its jobs
  end if;
  if idempotency_keys is not null then
    insert into windlass.idempotency (tenant_id, idempotency_key, job_id, body_hash, created_at)
      select own, k.key, nobody, ''::bytea, at from unnest(idempotency_keys) with ordinality k (key, ord) order by k.ord
      on conflict do nothing;
  end if;
  if dedupe_keys is not null then
    foreach key in array dedupe_keys loop
      loop
        select d.job_id, d.until into held from windlass.dedupe d where d.tenant_id = own and d.dedupe_key = key;
        if not found then
          insert into windlass.dedupe (tenant_id, dedupe_key, job_id, until, released_at_end) values (own, key, nobody, '-infinity', true)
            on conflict do nothing;
        elsif held.until > at then
          if sees_commits then
            insert into windlass.dedupe (tenant_id, dedupe_key, job_id, until, released_at_end)
              values (own, windlass.key_note(key), held.job_id, held.until, false) on conflict do nothing;
          end if;
          exit;
        else
          perform from windlass.dedupe d where d.tenant_id = own and d.dedupe_key = key and d.until <= at for update;
        end if;
        exit when found; -- otherwise released, or taken, between the statements: try again
      end loop;
    end loop;
  end if;
  if ordering_keys is not null then
    insert into windlass.ordering (tenant_id, ordering_key, last_job_id)
      select own, k.key, nobody from unnest(ordering_keys) with ordinality k (key, ord) order by k.ord
      on conflict do nothing;
    needs := needs || array(
      select o.last_job_id from windlass.ordering o
       where o.tenant_id = own and o.ordering_key = any (ordering_keys) and o.last_job_id <> nobody
       order by o.ordering_key collate "C" for update);
  end if;
  if needs is not null then
    perform from windlass.job b where b.tenant_id = own and b.id = any (needs) order by b.id for key share;
  end if;
  insert into windlass.key_lock (tenant_id, idempotency_keys, dedupe_keys, ordering_keys)
    values (own, idempotency_keys, dedupe_keys, ordering_keys);
  perform set_config('windlass.keys_locked', 'on', true);
end
$$;

-- Deletes the rows that lock_keys inserted and that no job of the batch has taken. The tables contain no key_lock of
-- another transaction.
create or replace function windlass.unlock_keys(tenant uuid, idempotency_keys text[], dedupe_keys text[], ordering_keys text[])
returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  own constant uuid := windlass.tenant_for(unlock_keys.tenant);
begin
  if not (windlass.is_list(idempotency_keys) and windlass.is_list(dedupe_keys)
      and windlass.is_list(ordering_keys)) then
    perform windlass.raise_array();
  end if;
  perform windlass.release_keys(own, idempotency_keys, dedupe_keys, ordering_keys);
  delete from windlass.key_lock k
   where k.tenant_id = own and k.idempotency_keys is not distinct from nullif(windlass.keys_in_order(unlock_keys.idempotency_keys), '{}')
     and k.dedupe_keys is not distinct from nullif(windlass.keys_in_order(unlock_keys.dedupe_keys), '{}')
     and k.ordering_keys is not distinct from nullif(windlass.keys_in_order(unlock_keys.ordering_keys), '{}');
  perform set_config('windlass.keys_locked', 'off', true);
end
$$;

create or replace function windlass.release_keys(of_tenant uuid, idempotency_keys text[], dedupe_keys text[], ordering_keys text[])
returns void
language plpgsql
as $$
#variable_conflict use_column
declare
  nobody constant uuid := '00000000-0000-0000-0000-000000000000';
begin
  if idempotency_keys is not null then
    delete from windlass.idempotency i
     where i.tenant_id = of_tenant and i.idempotency_key = any (idempotency_keys) and i.job_id = nobody and i.body_hash = ''::bytea;
  end if;
  if dedupe_keys is not null then
    delete from windlass.dedupe d
     where d.tenant_id = of_tenant and d.dedupe_key = any (dedupe_keys) and d.job_id = nobody and d.until = '-infinity';
    delete from windlass.dedupe d
     where d.tenant_id = of_tenant and d.dedupe_key = any (array(select windlass.key_note(k) from unnest(dedupe_keys) k));
  end if;
  if ordering_keys is not null then
    delete from windlass.ordering o where o.tenant_id = of_tenant and o.ordering_key = any (ordering_keys) and o.last_job_id = nobody;
  end if;
end
$$;

-- Runs when the transaction commits, or earlier (SET CONSTRAINTS … IMMEDIATE), for each call of lock_keys.
create or replace function windlass.end_key_lock() returns trigger
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  delete from windlass.key_lock k where k.tenant_id = new.tenant_id and k.id = new.id;
  if found then
    perform windlass.release_keys(new.tenant_id, new.idempotency_keys, new.dedupe_keys, new.ordering_keys);
  end if;
  return null;
end
$$;
do $$
begin
  if not exists (select from pg_trigger t where t.tgrelid = 'windlass.key_lock'::regclass and t.tgname = 'end_key_lock') then
    create constraint trigger end_key_lock after insert on windlass.key_lock deferrable initially deferred
      for each row execute function windlass.end_key_lock();
  end if;
end
$$;

-- The keys that enqueue accepts, once each, in the order in which every batch locks them.
create or replace function windlass.keys_in_order(keys text[]) returns text[]
language sql immutable
as $$
  select array(select distinct k collate "C" from unnest(keys) k where octet_length(k) between 1 and 500 order by 1)
$$;

-- The key under which this transaction stores the holder of a dedupe key; see lock_keys. Only this transaction sees the
-- row.
create or replace function windlass.key_note(key text) returns text
language sql stable
return chr(1) || pg_current_xact_id() || chr(1) || key;
