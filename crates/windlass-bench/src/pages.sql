-- The data for the pages besides a long history: three thousand dead letters of thirty causes, a backlog, an hour of
-- activity, and other tenants with their own lane and counts.
create schema surrounded;

create procedure surrounded.fill(tenants bigint, key text, of_payload jsonb)
language plpgsql as $$
declare
  own constant uuid := '00000000-0000-7000-8000-000000000001';
  own_lane integer;
  of_definition uuid;
begin
  select r.lane into own_lane from windlass.route_of(null, key, null, null) r;
  select d.id into of_definition from windlass.job_definitions d where d.key = $2;
  with made as materialized (
    select windlass.uuid7() as id, n from generate_series(1, 3000) n),
  bodies as (
    insert into windlass.job (tenant_id, id, created_at, lane, source, max_attempts, payload)
      select own, m.id, now(), own_lane, 1, 25, of_payload::json from made m)
  insert into windlass.history (tenant_id, job_id, started_at, finished_at, attempt, lane, worker, outcome, job_status, reason, error_text)
    select own, m.id, now() - interval '2 seconds', now(), 1, own_lane, 1, 2, 3, 'attempts_exhausted',
           'cause ' || chr(65 + (m.n % 30)::integer) || ': connection to provider refused' || repeat(E'\n  at frame', 20)
      from made m;
  insert into windlass.tally (tenant_id, lane, dead_letter) values (own, own_lane, 3000);
  perform windlass.enqueue(key, of_payload) from generate_series(1, 1000);
  insert into windlass.activity (tenant_id, queue, at, succeeded, failed, queued, running)
    select t, 'default', date_bin('15 seconds', now(), 'epoch') - n * interval '15 seconds', 14000 + n % 900, n % 7, 1000, 50
      from generate_series(1, 240) n, unnest(array[own, '00000000-0000-0000-0000-000000000000']) t
    on conflict do nothing;
  insert into windlass.tenants (slug, name)
    select 'tenant-' || n, 'Tenant ' || lpad(n::text, 5, '0') from generate_series(1, tenants) n;
  insert into windlass.lane (tenant_id, definition_id, queue, priority)
    select t.id, of_definition, 'default', 100 from windlass.tenants t where t.slug like 'tenant-%';
  insert into windlass.total (tenant_id, lane, succeeded)
    select n.tenant_id, n.id, 1000 + n.id % 5000 from windlass.lane n where n.tenant_id <> own;
end
$$;
