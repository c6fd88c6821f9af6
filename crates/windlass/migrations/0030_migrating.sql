-- The table whose lock the process that migrates holds; it never has a row. `migrate` creates it before, because it locks first.
set local role windlass_owner;

create table if not exists windlass.migrating ();
