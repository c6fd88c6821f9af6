//! What each role may call and read, written down in privileges.txt.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use windlass_testing::TestQueue;

/// Written again with `WINDLASS_BLESS=1`; the difference is what a reviewer looks at.
#[tokio::test]
async fn each_role_has_exactly_the_documented_privileges() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let query = "
        with roles (short, role) as (select r, 'windlass_' || r from unnest(array['app', 'worker', 'keeper', 'server', 'admin', 'operator', 'reader', 'puller']) r),
        relations as (
          select 'relation ' || c.relname as object, r.short, string_agg(p.privilege || coalesce(' without ' || o.columns, ''), '+') as held
            from pg_class c cross join roles r
            cross join unnest(array['select', 'insert', 'update', 'delete', 'truncate']) p (privilege)
            cross join lateral (select string_agg(a.attname, ' ' order by a.attnum) as columns from pg_attribute a
              where p.privilege = 'select' and a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                and not has_column_privilege(r.role, c.oid, a.attnum, 'select')) o
           where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p', 'v') and c.relname !~ '_[0-9]{8}'
             and (has_table_privilege(r.role, c.oid, p.privilege)
                  or p.privilege in ('select', 'insert', 'update') and has_any_column_privilege(r.role, c.oid, p.privilege))
           group by 1, 2),
        functions as (
          select 'function ' || p.proname as object, r.short, 'execute' as held
            from pg_proc p cross join roles r
           where p.pronamespace = 'windlass'::regnamespace and has_function_privilege(r.role, p.oid, 'execute'))
        select format('%s: %s', object, string_agg(short || ' ' || held, ', ' order by short))
          from (table relations union all table functions) held group by object order by object collate \"C\"";
    let rows = client.query(query, &[]).await.unwrap();
    let found: String = rows.iter().map(|row| format!("{}\n", row.get::<_, String>(0))).collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/access/privileges.txt");
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        fs::write(&file, &found).unwrap();
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    let (found, written): (BTreeSet<&str>, BTreeSet<&str>) =
        (found.lines().collect(), written.lines().collect());
    let new: Vec<_> = found.difference(&written).collect();
    let gone: Vec<_> = written.difference(&found).collect();
    assert!(new.is_empty() && gone.is_empty(), "new: {new:#?}\ngone: {gone:#?}");
}
