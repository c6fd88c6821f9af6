//! Edits and deletions that are computed before an instant is processed or passes, and written after it.

use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use windlass::schedule::Trigger;
use windlass::{DEFAULT_TENANT, Error};
use windlass_testing::{TestQueue, eventually, until_a_session_waits};

use super::{changes, create, define, every_minute, fire_all, fires, jobs_of, look_back, outcomes};
use crate::support::{count, keeper};

/// The fields of a trigger, with another time zone that has the same instants.
async fn moved(client: &Client, trigger: &Trigger) -> Value {
    let fields = r#"select windlass.trigger_fields(t, 'held') || '{"timezone": "Africa/Abidjan"}'
        from windlass.job_triggers t where t.id = $1"#;
    client.query_one(fields, &[&trigger.id]).await.unwrap().get(0)
}

/// A-311: the caller has read the trigger before the instant, and writes after its fire.
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_a_fire_overtook_does_not_fire_the_instant_again() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    define(&queue).await;
    let trigger = create(&queue, &every_minute()).await;
    let due = look_back(&client, &trigger, SignedDuration::from_secs(60)).await;
    let fields = moved(&client, &trigger).await;
    fire_all(&keeper(&queue)).await;
    assert_eq!(jobs_of(&client, trigger.id).await, 1);
    for expected in ["null", "$4"] {
        let edit = format!(
            "select windlass.update_trigger($1, $2, 1, $3, true, $4::timestamptz, null, 'edited', {expected})"
        );
        let row = client.query_one(&edit, &[&DEFAULT_TENANT, &trigger.id, &fields, &due]).await.unwrap();
        assert_eq!(row.get::<_, Option<i32>>(0), None, "expected {expected}");
    }
    fire_all(&keeper(&queue)).await;
    assert_eq!(jobs_of(&client, trigger.id).await, 1, "one job per instant");
    // By a caller of the previous release, which passes no expected instant.
    let edit =
        "select windlass.update_trigger($1, $2, 1, $3, true, now() + interval '1 hour', null, 'edited')";
    let row = client.query_one(edit, &[&DEFAULT_TENANT, &trigger.id, &fields]).await.unwrap();
    assert_eq!(row.get::<_, Option<i32>>(0), Some(2));
}

/// An instant passes while the call waits for the trigger, after it has read the time.
async fn while_it_waits<T: Send + 'static>(
    queue: &TestQueue,
    trigger: &Trigger,
    call: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    let (client, open) = (queue.client().await, queue.client().await);
    let soon =
        "update windlass.job_triggers set next_due_at = clock_timestamp() + interval '3 s' where id = $1";
    client.execute(soon, &[&trigger.id]).await.unwrap();
    open.batch_execute("begin").await.unwrap();
    open.query("select from windlass.job_triggers where id = $1 for update", &[&trigger.id]).await.unwrap();
    let waiting: JoinHandle<Result<T, Error>> = tokio::spawn(call);
    until_a_session_waits(&client).await;
    eventually("the instant passes", async || {
        count(&client, "select count(*) from windlass.job_triggers where next_due_at <= clock_timestamp()")
            .await
            == 1
    })
    .await;
    open.batch_execute("commit").await.unwrap();
    waiting.await.unwrap()
}

/// A-311.
#[tokio::test(flavor = "multi_thread")]
async fn an_instant_that_passes_during_an_edit_or_a_deletion_is_recorded() {
    let queue = TestQueue::create().await;
    define(&queue).await;
    let edited = create(&queue, &every_minute()).await;
    let (own, id) = (queue.queue().clone(), edited.id);
    let edit = async move {
        let yearly = changes(json!({"cron_expr": "0 0 1 1 *"}));
        own.update_trigger(DEFAULT_TENANT, id, Some(1), &yearly, "tester").await
    };
    assert_eq!(while_it_waits(&queue, &edited, edit).await.unwrap().generation, 2);
    assert_eq!(outcomes(&fires(&queue, &edited).await), ["skipped edited"]);

    let deleted = create(&queue, &every_minute().label("deleted")).await;
    let (own, id) = (queue.queue().clone(), deleted.id);
    let delete = async move { own.delete_trigger(DEFAULT_TENANT, id, Some(1), "tester").await };
    while_it_waits(&queue, &deleted, delete).await.unwrap();
    assert_eq!(outcomes(&fires(&queue, &deleted).await), ["skipped deleted"]);
}

/// A keeper fires between the read and the write of an edit without a generation: the edit is computed again.
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_a_fire_overtook_is_computed_again() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    define(&queue).await;
    let trigger = create(&queue, &every_minute()).await;
    let due = look_back(&client, &trigger, SignedDuration::from_secs(60)).await;
    let open = queue.client().await;
    open.batch_execute("begin").await.unwrap();
    open.query("select from windlass.job_triggers where id = $1 for update", &[&trigger.id]).await.unwrap();
    let (own, id) = (queue.queue().clone(), trigger.id);
    let edit = tokio::spawn(async move {
        let moved = changes(json!({"timezone": "Africa/Abidjan"}));
        own.update_trigger(DEFAULT_TENANT, id, None, &moved, "tester").await
    });
    until_a_session_waits(&client).await;
    let fire = "select fired from windlass.fire_triggers(array[$1::uuid], array[$2::uuid], array[1], array[$3::timestamptz],
        array[now() + interval '1 h'], array[1], array[$3::timestamptz], array[null::text], array[gen_random_uuid()],
        array[null::integer], array[3::smallint], array['held'], array['{}'::jsonb], array[0::float8])";
    let fired: i32 = open.query_one(fire, &[&DEFAULT_TENANT, &trigger.id, &due]).await.unwrap().get(0);
    open.batch_execute("commit").await.unwrap();
    assert_eq!((fired, edit.await.unwrap().unwrap().generation), (1, 2));
    assert_eq!(outcomes(&fires(&queue, &trigger).await), ["fired"]);
}
