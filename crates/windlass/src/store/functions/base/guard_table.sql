-- Row-level security for one table: forced, and everything allowed to the owner, as whom the functions run.
-- Whoever else may see rows gets a policy of its own; a partition has none, so it is reached only through its parent.
create or replace function windlass.guard_table(name text) returns void
language plpgsql
as $$
begin
  execute format('alter table windlass.%I enable row level security', name);
  execute format('alter table windlass.%I force row level security', name);
  if not exists (select from pg_policy p where p.polrelid = format('windlass.%I', name)::regclass and p.polname = 'owner_moves_jobs') then
    execute format('create policy owner_moves_jobs on windlass.%I to windlass_owner using (true) with check (true)', name);
  end if;
end
$$;
