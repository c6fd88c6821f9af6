-- Translates codes to names and back: with model/job/state.rs, the only place that contains the codes of states and
-- outcomes, besides the constraints of 0003_jobs.sql.
-- Trap: these functions have no `set` and are not SECURITY DEFINER, so that the planner inlines them. A call with a
-- constant becomes a constant in the plan, also in a generic plan, and costs nothing per row.
create or replace function windlass.state_name(code smallint) returns text
language sql immutable parallel safe
return (array['succeeded', 'failed', 'dead_letter', 'canceled', 'queued', 'running', 'scheduled', 'blocked'])[code];

create or replace function windlass.state_code(name text) returns smallint
language sql immutable parallel safe
return array_position(array['succeeded', 'failed', 'dead_letter', 'canceled', 'queued', 'running', 'scheduled', 'blocked'], name)::smallint;

-- Whether a job in this state has ended: the terminal states have the smallest codes.
create or replace function windlass.has_ended(state smallint) returns boolean
language sql immutable parallel safe
return state <= windlass.state_code('canceled');

create or replace function windlass.outcome_name(code smallint) returns text
language sql immutable parallel safe
return (array['succeeded', 'failed', 'timeout', 'canceled', 'lost', 'snoozed', 'released'])[code];

create or replace function windlass.outcome_code(name text) returns smallint
language sql immutable parallel safe
return array_position(array['succeeded', 'failed', 'timeout', 'canceled', 'lost', 'snoozed', 'released'], name)::smallint;

create or replace function windlass.source_name(code smallint) returns text
language sql immutable parallel safe
return (array['manual', 'event', 'schedule', 'system'])[code];

create or replace function windlass.source_code(name text) returns smallint
language sql immutable parallel safe
return array_position(array['manual', 'event', 'schedule', 'system'], name)::smallint;
