-- The constraint on a row of the line: 1 to 64 ids in a one-dimensional array. Claims depend on it. A function, because
-- every statement reads and plans a constraint again: this one costs an enqueue 2 us, as an expression 12.
create or replace function windlass.is_line(ids uuid[]) returns boolean
language plpgsql immutable
as $$
begin
  return pg_catalog.cardinality(ids) operator(pg_catalog.>=) 1 and pg_catalog.cardinality(ids) operator(pg_catalog.<=) 64
    and pg_catalog.array_ndims(ids) operator(pg_catalog.=) 1 and pg_catalog.array_lower(ids, 1) operator(pg_catalog.=) 1
    and pg_catalog.array_position(ids, null) is null;
end
$$;
-- Only if it is missing, because it locks the table.
do $$
begin
  if not exists (select from pg_constraint c where c.conrelid = 'windlass.line'::regclass and c.conname = 'line_ids') then
    alter table windlass.line add constraint line_ids check (windlass.is_line(ids));
  end if;
end
$$;
