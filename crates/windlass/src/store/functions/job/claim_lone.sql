-- Claims a row of one job, after the worker's row is locked. The same in single-row statements, because most of the
-- time of so small a claim is statement startup. On an idle queue every claim takes this path.
create or replace function windlass.claim_lone(by_worker integer, with_token uuid, at timestamptz, of_lane integer, of_seq bigint,
  is_limited boolean)
returns table (tenant_id uuid, job_id uuid, lane integer, seq bigint, attempt integer, failures smallint, lost smallint,
  snoozes smallint, max_attempts smallint, payload json, queued_ms bigint, deadline_ms bigint, extra jsonb)
language plpgsql
as $$
#variable_conflict use_column
declare
  place windlass.line;
  body record;
begin
  select l.* into place from windlass.line l where l.lane = of_lane and l.seq = of_seq for update skip locked;
  if not found then
    return;
  end if;
  select b.payload, b.created_at, b.scheduled_for, b.deadline, b.start_by,
         windlass.rare_columns(b.source_ref, b.correlation_id, b.subject_type, b.subject_id, b.trace, b.tags, b.parent_id,
           b.created_by) as extra
    into body from windlass.job b where b.tenant_id = place.tenant_id and b.id = place.ids[1];
  if not found then
    delete from windlass.line l where l.lane = of_lane and l.seq = of_seq and l.tenant_id = place.tenant_id;
    insert into windlass.tally (tenant_id, lane, queued) values (place.tenant_id, place.lane, -1);
    return;
  elsif (body.deadline <= at or body.start_by <= at) and windlass.is_late(place.tenant_id, place.ids[1], place.attempt, at) then
    perform windlass.fail_late(array[place], array[1], at);
    return;
  end if;
  delete from windlass.line l where l.lane = of_lane and l.seq = of_seq and l.tenant_id = place.tenant_id;
  insert into windlass.live (tenant_id, job_id, lane, attempt, failures, lost, snoozes, max_attempts, holds_dedupe, worker, token,
      claimed_at, limited_by)
    values (place.tenant_id, place.ids[1], place.lane, place.attempt + 1, place.failures, place.lost, place.snoozes, place.max_attempts,
            place.holds_dedupe, by_worker, with_token, at, case when is_limited then windlass.limited_by(place.lane) end);
  insert into windlass.tally (tenant_id, lane, queued, running) values (place.tenant_id, place.lane, -1, 1);
  return query
    select place.tenant_id, place.ids[1], place.lane, place.seq, place.attempt + 1, place.failures, place.lost, place.snoozes,
           place.max_attempts, body.payload, -windlass.milliseconds_until(greatest(body.created_at, body.scheduled_for), at),
           windlass.milliseconds_until(body.deadline, at), body.extra;
end
$$;
