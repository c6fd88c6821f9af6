//! What changes nothing leaves no row in the audit trail, by SQL and by the verbs of the library (decision 0019).

use std::time::Duration;

use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::admin::{Actor, Reach};
use windlass::events::NewEvent;
use windlass::job::State;
use windlass::schedule::NewTrigger;
use windlass::{DEFAULT_TENANT, Definition, NewJob};
use windlass_testing::TestQueue;

use crate::support::{Hand, count, ending, register};

async fn rows(client: &Client) -> i64 {
    count(client, "select count(*) from windlass.audit").await
}

fn fields(value: &Value) -> &serde_json::Map<String, Value> {
    value.as_object().unwrap()
}

/// A-240: each act twice, as a person with SQL. The first one has a row, the second one has none.
#[tokio::test(flavor = "multi_thread")]
async fn what_changes_nothing_records_nothing() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let client = &hand.client;
    let (tenant, deleted) = (queue.tenant("a").await, queue.tenant("b").await);
    let ended = hand.enqueue("'held'").await;
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, Some(ending::failed())).await);
    let [retried, canceled, many, purged] = [
        hand.enqueue("'held'").await,
        hand.enqueue("'held'").await,
        hand.enqueue("'held'").await,
        hand.enqueue("'held'").await,
    ];
    hand.cancel(retried).await;
    hand.enqueue("'held', subject_type => 's', subject_id => '1'").await;
    let worker = register(client).await;
    let fill = format!(
        "insert into windlass.users (id, email, name) values ('{ended}', 'a@example.com', 'A');
         insert into windlass.members (tenant_id, user_id, role) values ('{tenant}', '{ended}', 'viewer');
         insert into windlass.api_tokens (tenant_id, id, kind, name, secret_hash, role, created_by)
           values ('{tenant}', 't', 'api', 'n', '', 'viewer', 'a');
         insert into windlass.legal_hold (id, tenant_id, reason, created_by) values ('{ended}', '{tenant}', 'r', 'a')"
    );
    client.batch_execute(&fill).await.unwrap();
    let acts = [
        "set_paused('q', true)".to_owned(),
        "set_paused('q', false)".to_owned(),
        format!("set_draining((select worker_id from windlass.job_workers where id = {worker}), true)"),
        format!("set_draining((select worker_id from windlass.job_workers where id = {worker}), false)"),
        "ensure_tenant('c', 'C', 2)".to_owned(),
        format!("change_tenant('{tenant}', '{{\"name\": \"A\", \"max_running\": 7}}')"),
        format!("change_tenant('{tenant}', '{{\"max_running\": null}}')"),
        format!("mark_tenant_deleting('{deleted}')"),
        "define('{\"key\": \"held\", \"max_attempts\": 5}')".to_owned(),
        "change_definition((select id from windlass.job_definitions where key = 'held'), '{\"max_attempts\": 6}', null)".to_owned(),
        format!("set_retention('{tenant}', '*', 'failed', 60, false)"),
        format!("set_retention('{tenant}', '*', 'failed', null, true)"),
        format!("set_member_role('{tenant}', '{ended}', 'operator')"),
        format!("remove_member('{tenant}', '{ended}')"),
        format!("revoke_token('{tenant}', 't')"),
        format!("release_hold('{tenant}', '{ended}')"),
        format!("cancel('{DEFAULT_TENANT}', '{canceled}')"),
        format!("cancel_many('{DEFAULT_TENANT}', array['{many}']::uuid[], '{{}}')"),
        format!("retry('{DEFAULT_TENANT}', '{retried}', 'me')"),
        format!("retry_many('{DEFAULT_TENANT}', array['{ended}']::uuid[], '{{}}', 'me')"),
        format!("purge('{DEFAULT_TENANT}', array['{purged}']::uuid[])"),
        format!("purge_subject('{DEFAULT_TENANT}', 's', '1')"),
    ];
    // A queue that was never paused.
    let before = rows(client).await;
    client.batch_execute("select windlass.set_paused('new', false)").await.unwrap();
    assert_eq!(rows(client).await, before);
    for act in acts {
        for expected in [1, 0] {
            let before = rows(client).await;
            client
                .batch_execute(&format!("select windlass.{act}"))
                .await
                .unwrap_or_else(|error| panic!("{act}: {error:?}"));
            assert_eq!(rows(client).await - before, expected, "{act}");
        }
    }
}

/// The same for the server and for applications.
#[tokio::test(flavor = "multi_thread")]
async fn no_verb_of_the_library_records_what_it_did_not_change() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let definition = queue.define(&Definition::new("held")).await.unwrap();
    let (tenant, deleted) = (queue.tenant("a").await, queue.tenant("b").await);
    let worker = register(&client).await;
    let worker: String = client
        .query_one("select worker_id from windlass.job_workers where id = $1", &[&worker])
        .await
        .unwrap()
        .get(0);
    let mut trigger = None;
    for expected in [1, 0] {
        let changed = async |name: &str, before: i64| {
            assert_eq!(rows(&client).await - before, expected, "{name}");
        };
        macro_rules! acts {
            ($reach:expr, $name:literal, |$acting:ident| $verb:expr) => {{
                let before = rows(&client).await;
                let $acting = queue.act($reach, &Actor::default()).await.unwrap();
                $verb.await.unwrap();
                $acting.commit().await.unwrap();
                changed($name, before).await;
            }};
        }
        let all = Reach::Everything;
        let own = Reach::Tenant(tenant);
        acts!(all, "set_paused", |acting| acting.set_paused("q", true));
        acts!(all, "set_draining", |acting| acting.set_draining(&worker, true));
        let change = json!({"name": "A"});
        acts!(all, "change_tenant", |acting| acting.change_tenant(tenant, fields(&change)));
        let change = json!({"max_lanes": 7});
        acts!(all, "change_tenant", |acting| acting.change_tenant(tenant, fields(&change)));
        acts!(all, "delete_tenant", |acting| acting.delete_tenant(deleted));
        let change = json!({"max_attempts": 5});
        acts!(all, "change_definition", |acting| acting.change_definition(definition, fields(&change), None));
        let day = Some(Duration::from_secs(86_400));
        acts!(own, "set_retention", |acting| acting.set_retention(None, State::Failed, day));
        let event = NewEvent::new("e").dedupe_id("d");
        acts!(own, "emit", |acting| acting.emit(&event));
        if trigger.is_none() {
            let acting = queue.act(own, &Actor::default()).await.unwrap();
            trigger = Some(acting.create_trigger(&NewTrigger::event("one", "e", "held")).await.unwrap().id);
            acting.commit().await.unwrap();
        }
        let (id, change): (Uuid, _) = (trigger.unwrap(), json!({"label": "other"}));
        acts!(own, "update_trigger", |acting| acting.update_trigger(id, None, fields(&change)));

        let before = rows(&client).await;
        queue.set_paused("r", true).await.unwrap();
        queue.set_retention(tenant, None, State::Canceled, day, "a").await.unwrap();
        let purged = queue.purge_subject(tenant, "s", "1").await.unwrap();
        assert_eq!((rows(&client).await - before, purged), (2 * expected, 0));
        queue.enqueue(&NewJob::new("held")).await.unwrap();
    }
}
