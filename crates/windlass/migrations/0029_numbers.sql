-- Numbers of lanes and workers are taken again after the last one: each rolled-back transaction uses one up, so a login could exhaust
-- them. A number in use is skipped; see functions/base/numbers.sql.
set local role windlass_owner;

alter table windlass.lane alter column id set cycle;
alter table windlass.job_workers alter column id set cycle;
alter table windlass.gate alter column number set cycle;
drop function if exists windlass.used_numbers(); -- of earlier builds
