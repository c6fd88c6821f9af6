-- Which jobs of a partition can be deleted. All of them read a page of jobs, in the order of tenant and id: at most as many
-- as their caller has counted, by primary keys.

-- The key before all jobs, and the one after them.
create or replace function windlass.first_key() returns uuid[]
language sql immutable parallel safe
return array['00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000000']::uuid[];

create or replace function windlass.last_key() returns uuid[]
language sql immutable parallel safe
return array['ffffffff-ffff-ffff-ffff-ffffffffffff', 'ffffffff-ffff-ffff-ffff-ffffffffffff']::uuid[];

-- The key of the last of the next `most` bodies, or the last key if there are fewer.
create or replace function windlass.page_end(low uuid, high uuid, from_key uuid[], most integer) returns uuid[]
language plpgsql stable
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
  found_key uuid[];
begin
  execute format('select array[b.tenant_id, b.id] from windlass.job b
       where b.id >= %L and b.id < %L and (b.tenant_id, b.id) > (%L, %L) order by b.tenant_id, b.id offset %s limit 1',
    low, high, from_key[1], from_key[2], most - 1) into found_key;
  return coalesce(found_key, windlass.last_key());
end
$$;

-- How long jobs of a lane are kept after they ended with a status; null means forever. A tenant's rule for the definition
-- takes precedence over its rule for all definitions, and that over the definition's.
create or replace function windlass.keep_of(tenant uuid, in_lane integer, as_status smallint, out keep interval, out has_clean_up boolean)
language plpgsql stable
as $$
#variable_conflict use_column
declare
  name text := windlass.state_name(as_status);
  kind record;
  own bigint;
begin
  select d.key, d.retention -> name as rule, d.on_purge is not null as cleans_up into kind from windlass.job_definitions d
   where d.id = (select l.definition_id from windlass.lane l where l.id = in_lane and l.tenant_id = tenant);
  has_clean_up := coalesce(kind.cleans_up, false);
  select r.keep_seconds into own from windlass.retention r
   where r.tenant_id = tenant and r.status = name and r.definition_key in (kind.key, '*') order by r.definition_key = '*' limit 1;
  keep := case when found then make_interval(secs => own)
    when windlass.is_whole(kind.rule, 0, 3162240000) then make_interval(secs => (kind.rule #>> '{}')::double precision) end;
end
$$;

-- The jobs after one key and up to another that are past their period. cleans_up: the artifact is removed first.
-- Index: the primary key of history, in its order: any other plan reads more than the page.
create or replace function windlass.due_jobs(low uuid, high uuid, from_key uuid[], to_key uuid[])
returns table (tenant_id uuid, job_id uuid, lane integer, status smallint, keep interval, cleans_up boolean)
language plpgsql stable
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_nestloop = off
set jit = off
as $$
#variable_conflict use_column
begin
  return query execute format($q$
    with ended as materialized (
      select h.tenant_id, h.job_id, h.lane, h.job_status, h.finished_at, h.artifact is not null as has_artifact from windlass.history h
       where h.job_id >= %1$L and h.job_id < %2$L and h.job_status is not null
         and (h.tenant_id, h.job_id) > (%3$L, %4$L) and (h.tenant_id, h.job_id) <= (%5$L, %6$L)
       order by h.tenant_id, h.job_id),
    kinds as materialized (
      select e.tenant_id, e.lane, e.job_status, r.keep, r.has_clean_up
        from (select distinct e.tenant_id, e.lane, e.job_status from ended e) e
        cross join lateral windlass.keep_of(e.tenant_id, e.lane, e.job_status) r)
    select e.tenant_id, e.job_id, e.lane, e.job_status, k.keep, e.has_artifact and k.has_clean_up
      from ended e join kinds k on k.tenant_id = e.tenant_id and k.lane = e.lane and k.job_status = e.job_status
     where e.finished_at <= clock_timestamp() - k.keep
    $q$, low, high, from_key[1], from_key[2], to_key[1], to_key[2]);
end
$$;

-- Those of the jobs that stay whatever their rule says: their artifact is being removed, a blocked job waits for them, or
-- they are under legal hold.
create or replace function windlass.retire_protected(tenants uuid[], jobs uuid[]) returns table (tenant_id uuid, job_id uuid)
language plpgsql stable
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  return query
    with given as materialized (select g.tenant_id, g.job_id from unnest(tenants, jobs) g (tenant_id, job_id))
    select g.tenant_id, g.job_id from given g
     where exists (select from windlass.purge_wait w where w.tenant_id = g.tenant_id and w.job_id = g.job_id)
    union
    select g.tenant_id, g.job_id from given g
     where exists (select from windlass.dependency d join windlass.blocked b on b.tenant_id = d.tenant_id and b.job_id = d.job_id
                    where d.tenant_id = g.tenant_id and d.needs_job_id = g.job_id)
    union
    select g.tenant_id, h.job_id from (select g.tenant_id, array_agg(g.job_id) as jobs from given g group by g.tenant_id) g
      cross join lateral unnest(windlass.held_jobs(g.tenant_id, g.jobs)) h (job_id);
end
$$;

-- The jobs after one key and up to another that can be deleted now.
create or replace function windlass.retire_goes(low uuid, high uuid, from_key uuid[], to_key uuid[])
returns table (tenant_id uuid, job_id uuid, lane integer, status smallint)
language plpgsql stable
set enable_nestloop = off
as $$
#variable_conflict use_column
begin
  return query
    with due as materialized (
      select d.tenant_id, d.job_id, d.lane, d.status from windlass.due_jobs(low, high, from_key, to_key) d where not d.cleans_up),
    protected as materialized (
      select p.tenant_id, p.job_id
        from windlass.retire_protected(array(select d.tenant_id from due d), array(select d.job_id from due d)) p)
    select d.tenant_id, d.job_id, d.lane, d.status from due d
     where not exists (select from protected p where p.tenant_id = d.tenant_id and p.job_id = d.job_id);
end
$$;

-- About how many jobs of a partition can be deleted now, and how many more within an eighth of its width: from a sample of
-- 300 pages. has_rows: it is not both large and full of dead rows.
create or replace function windlass.sample_due(of_low uuid, of_high uuid, out due bigint, out soon bigint, out has_rows boolean)
language plpgsql
set enable_nestloop = off
as $$
#variable_conflict use_column
declare
  percents double precision[];
begin
  select array_agg(least(100, 30000.0 / greatest(1, pg_relation_size(format('windlass.%I', b.name)::regclass) / 8192)) order by p.place)
    into percents from unnest(array['history', 'job']) with ordinality p (parent, place)
    cross join lateral windlass.partition_bounds(p.parent) b where b.low = of_low and b.high = of_high;
  execute format($q$
    with ended as materialized (
      select h.tenant_id, h.job_id, h.lane, h.job_status, h.finished_at, h.artifact is not null as has_artifact
        from windlass.%1$I h tablesample system (%2$s) where h.job_status is not null),
    kinds as materialized (
      select e.tenant_id, e.lane, e.job_status, r.keep, r.has_clean_up
        from (select distinct e.tenant_id, e.lane, e.job_status from ended e) e
        cross join lateral windlass.keep_of(e.tenant_id, e.lane, e.job_status) r),
    going as materialized (
      select e.tenant_id, e.job_id, e.finished_at, clock_timestamp() - k.keep as cutoff
        from ended e join kinds k on k.tenant_id = e.tenant_id and k.lane = e.lane and k.job_status = e.job_status
       where k.keep is not null and not (e.has_artifact and k.has_clean_up)),
    protected as materialized (
      select p.tenant_id, p.job_id
        from windlass.retire_protected(array(select g.tenant_id from going g), array(select g.job_id from going g)) p)
    select (count(*) filter (where g.finished_at <= g.cutoff) * 100 / %2$s)::bigint,
           (count(*) filter (where g.finished_at > g.cutoff and g.finished_at <= g.cutoff + %5$L::interval) * 100 / %2$s)::bigint,
           %4$s >= 100 or exists (select from ended) or exists (select from windlass.%3$I tablesample system (%4$s))
      from going g where not exists (select from protected p where p.tenant_id = g.tenant_id and p.job_id = g.job_id)
    $q$,
    (select b.name from windlass.partition_bounds('history') b where b.low = of_low and b.high = of_high), percents[1],
    (select b.name from windlass.partition_bounds('job') b where b.low = of_low and b.high = of_high), percents[2],
    (windlass.uuid7_instant(of_high) - windlass.uuid7_instant(of_low)) / 8) into due, soon, has_rows;
end
$$;
