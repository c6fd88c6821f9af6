-- Who may do what with the sums behind the charts; runs after policies.sql, which took everything back, and before
-- control_plane.sql, which gives the admin what the api has.
select windlass.guard_table('activity');
drop policy if exists tenant_reads on windlass.activity;
create policy tenant_reads on windlass.activity for select to windlass_api, windlass_reader
  using (tenant_id = (select windlass.current_tenant()));
grant select on windlass.activity to windlass_api, windlass_reader;
grant execute on function windlass.sample_activity to windlass_worker;
