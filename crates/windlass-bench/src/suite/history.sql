-- Finished jobs as a queue leaves them: a body and the row of its one successful attempt, a thousand jobs per second up to
-- now, in the order of time. `part` of `parts` loops share the work.
create schema filled;

create function filled.id_at(ms bigint) returns uuid
language sql volatile
return overlay(gen_random_uuid()::text placing
  substr(lpad(to_hex(ms), 12, '0'), 1, 8) || '-' || substr(lpad(to_hex(ms), 12, '0'), 9, 4) || '-7' from 1 for 15)::uuid;

create procedure filled.fill(total bigint, part bigint, parts bigint, in_lane integer, of_payload json)
language plpgsql as $$
declare
  batch constant bigint := 10000;
  newest constant bigint := (extract(epoch from clock_timestamp()) * 1000)::bigint;
begin
  for start in (total * part / parts) + 1 .. total * (part + 1) / parts by batch loop
    with made as materialized (
      select filled.id_at(newest - total + n) as id, to_timestamp((newest - total + n) / 1000.0) as at
        from generate_series(start, least(start + batch - 1, total * (part + 1) / parts)) n),
    bodies as (
      insert into windlass.job (tenant_id, id, created_at, lane, source, max_attempts, payload)
        select '00000000-0000-7000-8000-000000000001', m.id, m.at, in_lane, 1, 25, of_payload from made m)
    insert into windlass.history (tenant_id, job_id, started_at, finished_at, attempt, lane, worker, outcome, job_status)
      select '00000000-0000-7000-8000-000000000001', m.id, m.at, m.at, 1, in_lane, 1, 1, 1 from made m;
    commit;
  end loop;
end
$$;
