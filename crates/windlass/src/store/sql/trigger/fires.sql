-- The fires of a trigger, newest instant first: for a schedule its instants, for an event trigger the events that it
-- matched. Each half reads the key of its own table; $3 is the oldest instant of the previous page.
select jsonb_build_object('trigger_id', f.trigger_id, 'due_at', f.at, 'kind', f.kind, 'generation', f.generation, 'outcome', f.outcome,
         'reason', f.reason, 'job_id', f.job_id, 'jitter_seconds', f.jitter_seconds, 'event_id', f.event_id, 'decided_at', f.decided_at)
  from (select f.trigger_id, f.due_at as at, f.kind, f.generation, f.outcome, f.reason, f.job_id, f.jitter_seconds,
    null::uuid as event_id, f.decided_at
          from windlass.fire f
         where f.tenant_id = $1 and f.trigger_id = $2 and ($3::timestamptz is null or f.due_at < $3)
         order by f.due_at desc limit $4) f
union all
select jsonb_build_object('trigger_id', d.trigger_id, 'due_at', d.emitted_at, 'kind', 'event', 'generation', null, 'outcome', d.outcome,
         'reason', d.reason, 'job_id', d.job_id, 'jitter_seconds', 0, 'event_id', d.event_id, 'decided_at', d.decided_at)
  from (select d.*, e.emitted_at from windlass.event_dispatch d
          join windlass.event e on e.tenant_id = d.tenant_id and e.id = d.event_id
         where d.tenant_id = $1 and d.trigger_id = $2 and ($3::timestamptz is null or e.emitted_at < $3)
         order by d.event_id desc limit $4) d
