-- Claims a row of one job, after the worker's row is locked. The same in single-row statements, because most of the
-- time of so small a claim is statement startup. On an idle queue every claim takes this path.
create or replace function windlass.claim_lone(by_worker integer, with_token uuid, at timestamptz, of_lane integer, of_seq bigint,
  is_limited boolean, apart boolean)
returns table (tenant_id uuid, job_id uuid, lane integer, seq bigint, attempt integer, failures smallint, lost smallint,
  snoozes smallint, max_attempts smallint, payload json, queued_ms bigint, deadline_ms bigint, extra jsonb, block bigint,
  at_position smallint)
language plpgsql
set jit = off
as $$
#variable_conflict use_column
declare
  place windlass.line;
  block windlass.live;
  body record;
begin
  select l.* into place from windlass.line l where l.lane = of_lane and l.seq = of_seq for update skip locked;
  if not found then
    return;
  end if;
  delete from windlass.line l where l.lane = of_lane and l.seq = of_seq and l.tenant_id = place.tenant_id;
  insert into windlass.live as l (tenant_id, lane, seq, worker, attempt, token, claimed_at, failures, lost, snoozes, max_attempts,
      holds_dedupe, limited_by, job_id, ids)
    values (place.tenant_id, place.lane, place.seq + place.taken, by_worker, place.attempt + 1, with_token, at, place.failures, place.lost,
            place.snoozes, place.max_attempts, place.holds_dedupe, case when is_limited then windlass.limited_by(place.lane) end,
            case when apart then place.ids[1] else place.job_id end, place.ids)
    returning l.* into block;
  insert into windlass.tally (tenant_id, lane, queued, running) values (place.tenant_id, place.lane, -1, 1);
  select b.payload, b.created_at, b.scheduled_for, b.deadline, b.start_by,
         windlass.rare_columns(b.source_ref, b.correlation_id, b.subject_type, b.subject_id, b.trace, b.tags, b.parent_id,
           b.created_by) as extra
    into body from windlass.job b where b.tenant_id = place.tenant_id and b.id = place.ids[1];
  if not found
     or coalesce(body.deadline <= at or body.start_by <= at, false)
        and windlass.is_late(place.tenant_id, place.ids[1], place.attempt, at) then
    perform windlass.fail_late(array[block], at);
    return;
  end if;
  return query
    select block.tenant_id, block.ids[1], block.lane, block.seq, block.attempt, block.failures, block.lost, block.snoozes,
           block.max_attempts, body.payload, -windlass.milliseconds_until(greatest(body.created_at, body.scheduled_for), at),
           windlass.milliseconds_until(body.deadline, at), body.extra, block.seq, 0::smallint;
end
$$;

-- The columns that most jobs do not set, as JSON; null if none is set.
create or replace function windlass.rare_columns(
  source_ref text, correlation_id text, subject_type text, subject_id text, trace text, tags text[], parent_id uuid, created_by uuid)
returns jsonb
language sql stable
as $$
  select case when num_nonnulls(source_ref, correlation_id, subject_type, subject_id, trace, tags, parent_id, created_by) > 0 then
    jsonb_build_object('source_ref', source_ref, 'correlation_id', correlation_id, 'subject_type', subject_type,
      'subject_id', subject_id, 'trace', trace, 'tags', tags, 'parent_id', parent_id, 'created_by', created_by) end
$$;
