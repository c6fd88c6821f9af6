//! The cost of the pages of the UI does not grow with the history or the number of tenants.

use uuid::Uuid;

use super::watch::Plan;
use super::{MOSTLY_FINISHED, Watch, fill, prepared, statement};

const TENANTS: i64 = 10_000;

#[tokio::test]
async fn the_cost_of_a_page_does_not_grow_with_the_history() {
    let queue = prepared().await;
    fill(&queue, &MOSTLY_FINISHED).await;
    let mut watch = Watch::open(queue.url()).await;
    watch.client.batch_execute("begin").await.unwrap();
    let tenant = windlass::DEFAULT_TENANT;
    let scope = statement("Limits the rest of the transaction to reads");
    watch.client.query(scope, &[&tenant.to_string(), &"off"]).await.unwrap();
    watch.plans().await;

    let runs = statement("The attempts of the newest jobs of some tenants");
    let rows = watch.client.query(runs, &[&vec![tenant, Uuid::max()], &200_i64]).await.unwrap();
    assert_eq!(rows.len(), 200);
    let plan = only(&mut watch, runs).await;
    assert!(read(&plan, "history") <= 200 && read(&plan, "job") <= 200, "{plan:#?}");

    let letters = statement("A tenant's newest dead letters");
    watch.client.query(letters, &[&tenant, &2000_i64]).await.unwrap();
    let plan = only(&mut watch, letters).await;
    assert_eq!(read(&plan, "history"), 0, "there is no dead letter: {plan:#?}");

    let oldest = statement("Since when the oldest queued job of each queue");
    for of in [Some(tenant), None] {
        assert_eq!(watch.client.query(oldest, &[&of]).await.unwrap().len(), 1);
        let plan = only(&mut watch, oldest).await;
        assert!(read(&plan, "line") <= 6, "the heads of three lanes: {plan:#?}");
        assert!(read(&plan, "job") <= 3, "{plan:#?}");
    }
}

#[tokio::test]
async fn a_page_of_tenants_reads_only_its_own_rows() {
    let queue = prepared().await;
    let client = queue.client().await;
    let many = "insert into windlass.tenants (slug, name)
        select 't' || n, 'Tenant ' || lpad(n::text, 5, '0') from generate_series(1, $1::bigint) n";
    client.execute(many, &[&TENANTS]).await.unwrap();
    let mut watch = Watch::open(queue.url()).await;
    watch.client.batch_execute("begin").await.unwrap();
    let scope = statement("Limits the rest of the transaction to reads");
    watch.client.query(scope, &[&"", &"off"]).await.unwrap();
    watch.plans().await;

    let find = statement("A page of the tenants whose name or slug");
    let (mut after, mut seen) = (None::<Uuid>, 0);
    for _ in 0..3 {
        let rows = watch.client.query(find, &[&"", &after, &50_i64]).await.unwrap();
        let plan = only(&mut watch, find).await;
        assert!(read(&plan, "tenants") <= 51, "{plan:#?}");
        let last: serde_json::Value = rows.last().unwrap().get(0);
        after = last["id"].as_str().and_then(|id| id.parse().ok());
        seen += rows.len();
    }
    assert_eq!(seen, 150);
    let found = watch.client.query(find, &[&"tenant 0999", &None::<Uuid>, &50_i64]).await.unwrap();
    assert_eq!(found.len(), 10, "09990 to 09999");
    let names = statement("Tenants by name");
    watch.plans().await;
    watch.client.query(names, &[&None::<Vec<Uuid>>, &20_i64]).await.unwrap();
    let plan = only(&mut watch, names).await;
    assert!(read(&plan, "tenants") <= 20, "{plan:#?}");
}

/// The plan of the statement that was run last.
async fn only(watch: &mut Watch, text: &str) -> Plan {
    let mut plans = watch.plans().await;
    plans.retain(|plan| plan.query == text);
    assert_eq!(plans.len(), 1, "{plans:#?}");
    plans.remove(0)
}

/// Rows fetched from a table, or from all partitions of it.
fn read(plan: &Plan, table: &str) -> u64 {
    let is_it = |name: &str| {
        name == table || name == format!("{table}_default") || name.starts_with(&format!("{table}_2"))
    };
    let names: std::collections::BTreeSet<&str> = plan
        .nodes()
        .iter()
        .filter_map(|node| node["Relation Name"].as_str())
        .filter(|name| is_it(name))
        .collect();
    names.into_iter().map(|name| plan.rows_read(name)).sum()
}
