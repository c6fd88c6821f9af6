-- The application's own tables, beside those of windlass: they show which of its transactions were committed.
create schema soak;
-- Written by a handler in the transaction that completes its attempt.
create table soak.effect (job uuid not null, attempt integer not null, primary key (job, attempt));
-- Written in the transaction of an enqueue from SQL.
create table soak.sent (intent bigint primary key);
-- Written in the transaction of an event from SQL.
create table soak.emitted (event bigint primary key);
