-- How much of the 32-bit numbers of lanes, workers and gates has been used, from 0 to 1: a sequence that has reached its end refuses
-- the next insert. The doctor warns before. Only the owner can read a sequence.
create or replace function windlass.used_numbers() returns table (relation text, share double precision)
language sql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select t.relname::text, coalesce(pg_sequence_last_value(s.seqrelid), 0)::double precision / s.seqmax
    from pg_sequence s
    join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = s.seqrelid and d.deptype = 'i'
    join pg_class t on t.oid = d.refobjid and t.relnamespace = 'windlass'::regnamespace
   where s.seqtypid = 'integer'::regtype
   order by t.relname
$$;
