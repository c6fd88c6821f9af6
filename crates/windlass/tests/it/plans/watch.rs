//! The plans that Postgres really used, including those of statements inside functions, as reported by `auto_explain`.

use std::collections::BTreeSet;
use std::future::poll_fn;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls};

/// A session whose plans are all recorded.
pub(crate) struct Watch {
    pub(crate) client: Client,
    heard: mpsc::UnboundedReceiver<String>,
}

impl Watch {
    pub(crate) async fn open(url: &str) -> Self {
        let (client, mut connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        let (sender, heard) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notice(notice) = message {
                    let _ = sender.send(notice.message().to_owned());
                }
            }
        });
        client
            .batch_execute(
                "load 'auto_explain'; set default_transaction_isolation = 'read committed';
                 set auto_explain.log_min_duration = 0; set auto_explain.log_nested_statements = on;
                 set auto_explain.log_analyze = on; set auto_explain.log_timing = off;
                 set auto_explain.log_format = json; set auto_explain.log_level = notice",
            )
            .await
            .unwrap();
        let mut watch = Self { client, heard };
        watch.plans().await;
        watch
    }

    /// The plans since the last call. A plan is reported when its portal is closed, and inside a transaction only the next
    /// statement does that; hence an empty one.
    pub(crate) async fn plans(&mut self) -> Vec<Plan> {
        self.client.batch_execute("select").await.unwrap();
        let mut plans = Vec::new();
        while let Ok(notice) = self.heard.try_recv() {
            let Some((_, json)) = notice.split_once("plan:\n") else { continue };
            let json: Value = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"));
            plans.push(Plan {
                query: json["Query Text"].as_str().unwrap_or_default().to_owned(),
                root: json["Plan"].clone(),
            });
        }
        plans
    }
}

/// One statement and the plan it ran with.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) query: String,
    root: Value,
}

impl Plan {
    pub(crate) fn nodes(&self) -> Vec<&Value> {
        let mut found = vec![&self.root];
        let mut next = 0;
        while let Some(node) = found.get(next).copied() {
            found.extend(node["Plans"].as_array().into_iter().flatten());
            next += 1;
        }
        found
    }

    /// Tables that grow with the jobs and are scanned completely.
    pub(crate) fn scanned_whole(&self) -> BTreeSet<&str> {
        let scans = self.nodes().into_iter().filter(|node| node["Node Type"] == "Seq Scan");
        scans.filter_map(|node| node["Relation Name"].as_str()).filter(|name| grows(name)).collect()
    }

    /// Whether rows of the table are sorted: checks the nodes below each sort, but not its subplans.
    pub(crate) fn sorts(&self, table: &str) -> bool {
        let sorts = self.nodes().into_iter().filter(|node| node["Node Type"] == "Sort");
        sorts.into_iter().any(|sort| reads(sort, table))
    }

    /// Rows that were fetched from the table, including those that a filter removed.
    pub(crate) fn rows_read(&self, table: &str) -> u64 {
        let reads = self.nodes().into_iter().filter(|node| node["Relation Name"] == table);
        let scans =
            reads.filter(|node| node["Node Type"].as_str().is_some_and(|kind| kind.ends_with("Scan")));
        scans
            .map(|node| {
                let per_loop = number(&node["Actual Rows"]) + number(&node["Rows Removed by Filter"]);
                (per_loop * number(&node["Actual Loops"])) as u64
            })
            .sum()
    }

    /// Whether every scan of an index of the bodies has the tenant as a condition: those indexes start with it, and without it a
    /// scan reads a whole index.
    pub(crate) fn names_the_tenant_of_a_body(&self) -> bool {
        let is_body = |node: &&Value| {
            node["Relation Name"].as_str().is_some_and(|name| name.starts_with("job") && grows(name))
        };
        let conditions =
            self.nodes().into_iter().filter(is_body).filter_map(|node| node["Index Cond"].as_str());
        conditions.into_iter().all(|condition| condition.contains("tenant_id"))
    }

    pub(crate) fn uses_index(&self, part_of_name: &str) -> bool {
        self.nodes()
            .iter()
            .any(|node| node["Index Name"].as_str().is_some_and(|name| name.contains(part_of_name)))
    }
}

/// Not below a limit, which bounds the rows.
fn reads(node: &Value, table: &str) -> bool {
    if node["Node Type"] == "Limit" {
        return false;
    }
    if node["Relation Name"] == table && node["Node Type"].as_str().is_some_and(|kind| kind.ends_with("Scan"))
    {
        return true;
    }
    let children = node["Plans"].as_array().into_iter().flatten();
    children.into_iter().any(|child| {
        let is_input =
            child["Parent Relationship"] != "InitPlan" && child["Parent Relationship"] != "SubPlan";
        is_input && reads(child, table)
    })
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

/// Tables of the catalog (workers, definitions, tenants, lanes) and counters may be scanned: they stay small.
fn grows(table: &str) -> bool {
    let is_partition = |parent: &str| {
        table.strip_prefix(parent).is_some_and(|rest| {
            let day = rest.strip_prefix('_').and_then(|rest| rest.get(..8));
            rest == "_default" || day.is_some_and(|day| day.bytes().all(|byte| byte.is_ascii_digit()))
        })
    };
    let named =
        ["job", "live", "deferred", "blocked", "dependency", "dedupe", "history", "expiry", "progress"];
    named.contains(&table) || ["job", "history", "progress", "job_log"].into_iter().any(is_partition)
}

#[test]
fn partitions_grow_and_the_catalog_does_not() {
    for table in ["job", "job_default", "job_20261117", "history_20261117_1530_n2", "live", "deferred"] {
        assert!(grows(table), "{table}");
    }
    for table in ["job_workers", "job_definitions", "tenants", "lane", "total", "tally"] {
        assert!(!grows(table), "{table}");
    }
}
