-- Translates codes to names and back. Without a table, so that the planner folds constants; 0003_jobs.sql lists the
-- codes.
create or replace function windlass.state_name(code smallint) returns text
language sql immutable parallel safe
return (array['succeeded', 'failed', 'dead_letter', 'canceled', 'queued', 'running', 'scheduled', 'blocked'])[code];

create or replace function windlass.state_code(name text) returns smallint
language sql immutable parallel safe
return array_position(array['succeeded', 'failed', 'dead_letter', 'canceled', 'queued', 'running', 'scheduled', 'blocked'], name)::smallint;

create or replace function windlass.outcome_name(code smallint) returns text
language sql immutable parallel safe
return (array['succeeded', 'failed', 'timeout', 'canceled', 'lost', 'snoozed', 'released'])[code];

create or replace function windlass.source_name(code smallint) returns text
language sql immutable parallel safe
return (array['manual', 'event', 'schedule', 'system'])[code];

create or replace function windlass.source_code(name text) returns smallint
language sql immutable parallel safe
return array_position(array['manual', 'event', 'schedule', 'system'], name)::smallint;
