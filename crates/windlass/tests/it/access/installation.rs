//! The installation is no tenant: its rows have the nil id, and no transaction that acts for a tenant reaches them.

use std::collections::BTreeSet;

use windlass::admin::INSTALLATION;
use windlass_testing::{Login, TestQueue};

use super::GROUPS;
use super::calls::{Function, answer, functions};
use super::stock::About;

/// These answer by decision: `state_of` and `attempts_of` run as their caller, to whom row-level security shows the rows of the current
/// tenant (`the_attempts_of_a_job_are_shown_to_its_tenant_only`); and our own processes are trusted to have routed the job that they give
/// to `enqueue_routed`.
const ANSWER: [&str; 3] = ["attempts_of", "enqueue_routed", "state_of"];

/// C1: with the nil tenant in force, `create_token` made a super-admin.
#[tokio::test(flavor = "multi_thread")]
async fn no_function_acts_for_the_installation_with_a_current_tenant() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    let own = queue.tenant("own").await;
    let installation = About::nothing(INSTALLATION);
    let mut answered = BTreeSet::new();
    for group in GROUPS {
        let role = Login::create(&queue, group).await;
        let client = role.client().await;
        let is_held =
            |function: &Function| function.takes_a_tenant() && !ANSWER.contains(&function.name.as_str());
        for function in functions(&admin).await.into_iter().filter(is_held) {
            for in_force in [own, INSTALLATION] {
                let begin = format!("begin; set local windlass.tenant_id = '{in_force}'");
                client.batch_execute(&begin).await.unwrap();
                let (said, _) = answer(&client, &function.call(&installation)).await;
                client.batch_execute("rollback").await.unwrap();
                if said != "WL003" && said != "42501" {
                    answered.insert(format!("{} as {group} for {in_force}: {said}", function.name));
                }
            }
        }
        drop(client);
        role.drop().await;
    }
    assert!(answered.is_empty(), "{answered:#?}");
}

/// Workers are the installation's, except the pull workers of a tenant, whose names end with its id.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_of_a_tenant_drains_only_the_tenants_own_pull_workers() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    let (own, other) = (queue.tenant("own").await, queue.tenant("other").await);
    let (mine, theirs) = (format!("a@{own}"), format!("a@{other}"));
    let register = "insert into windlass.job_workers (worker_id, hostname, version, queues, definition_keys, lease_seconds, lease_expires_at)
        select w, 'h', '1', '{}', '{}', 60, now() + interval '1 hour' from unnest($1::text[]) w";
    admin.execute(register, &[&vec!["ours", &mine, &theirs]]).await.unwrap();
    for group in ["windlass_server", "windlass_admin", "windlass_operator"] {
        let role = Login::create(&queue, group).await;
        let client = role.client().await;
        for (worker, said) in [("ours", "WL003"), (&theirs, "WL003"), ("nobody", "WL003"), (&mine, "answers")]
        {
            let call = format!("windlass.set_draining('{worker}', true)");
            for (tenant, expected) in [(own.to_string(), said), (String::new(), "answers")] {
                client
                    .batch_execute(&format!("begin; set local windlass.tenant_id = '{tenant}'"))
                    .await
                    .unwrap();
                let (found, _) = answer(&client, &call).await;
                client.batch_execute("rollback").await.unwrap();
                assert_eq!(found, expected, "{group} for {worker} with the current tenant {tenant:?}");
            }
        }
        drop(client);
        role.drop().await;
    }
}

/// The error of another tenant's attempt is not shown. The admin reads the history of all tenants directly too.
#[tokio::test(flavor = "multi_thread")]
async fn the_attempts_of_a_job_are_shown_to_its_tenant_only() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    let (own, other) = (queue.tenant("own").await, queue.tenant("other").await);
    queue.define(&windlass::Definition::new("k")).await.unwrap();
    let job = queue.enqueue(&windlass::NewJob::new("k").tenant(other)).await.unwrap().id;
    let take = "select id, token from windlass.take(array['k'], tenant_id => $1, worker_id => 'w')";
    let token: uuid::Uuid = admin.query_one(take, &[&other]).await.unwrap().get("token");
    let fail = "select windlass.fail($1, $2, 'private', tenant_id => $3)";
    admin.execute(fail, &[&job, &token, &other]).await.unwrap();
    for group in ["windlass_app", "windlass_reader", "windlass_operator", "windlass_server"] {
        let role = Login::create(&queue, group).await;
        let client = role.client().await;
        for (tenant, shown) in [(own, None), (INSTALLATION, None), (other, Some("private"))] {
            client.batch_execute(&format!("begin; set local windlass.tenant_id = '{tenant}'")).await.unwrap();
            let row = client
                .query_one("select last_error from windlass.attempts_of($1, $2)", &[&other, &job])
                .await;
            assert_eq!(row.unwrap().get::<_, Option<&str>>(0), shown, "{group} for {tenant}");
            client.batch_execute("rollback").await.unwrap();
        }
        drop(client);
        role.drop().await;
    }
}
