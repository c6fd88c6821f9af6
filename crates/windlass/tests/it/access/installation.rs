//! The installation is no tenant: its rows have the nil id, and no transaction that acts for a tenant reaches them.

use std::collections::BTreeSet;

use uuid::Uuid;
use windlass::admin::INSTALLATION;
use windlass_testing::{Login, TestQueue};

use super::GROUPS;
use super::calls::{About, Function, functions};
use super::matrix::outcome;

/// These answer by decision: the keeper goes over all tenants; `state_of` runs as its caller, to whom row-level security shows the rows of
/// the tenant in force; and our own processes are trusted to have routed the job that they give to `enqueue_routed`.
const ANSWER: [&str; 3] = ["enqueue_routed", "pending_events", "state_of"];

/// C1: with the nil tenant in force, `create_token` made a super-admin.
#[tokio::test(flavor = "multi_thread")]
async fn no_function_acts_for_the_installation_while_a_tenant_is_in_force() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    let own = queue.tenant("own").await;
    let installation = About { tenant: INSTALLATION, job: Uuid::new_v4(), lane: 1 };
    let mut answered = BTreeSet::new();
    for group in GROUPS {
        let role = Login::create(&queue, group).await;
        let client = role.client().await;
        let is_held =
            |function: &Function| function.takes_a_tenant() && !ANSWER.contains(&function.name.as_str());
        for function in functions(&admin).await.into_iter().filter(is_held) {
            for in_force in [own, INSTALLATION] {
                let call = function.call(&installation);
                let (said, _) = outcome(&client, &in_force.to_string(), &call, "rollback").await;
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
