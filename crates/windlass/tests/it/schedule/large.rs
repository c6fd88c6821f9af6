//! Templates that expand to much more than they are: what is rendered is bounded while it is rendered.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use windlass::keeper::Duty;
use windlass::schedule::{Misfire, NewTrigger};
use windlass::{DEFAULT_TENANT, Definition, Error};
use windlass_testing::TestQueue;

use super::{create, define, each_minute, every_minute, fire_all, fires, jobs_of, look_back};
use crate::support::{count, keeper};

/// A template of 61 KB. With a label of 200 bytes, a payload has 720 KB.
pub(crate) fn expanding() -> Value {
    json!({"z": "{{trigger.label}}".repeat(3600)})
}

pub(crate) fn long_label() -> String {
    "x".repeat(200)
}

fn large(trigger: NewTrigger) -> NewTrigger {
    trigger.label(long_label()).payload_template(expanding())
}

const BYTES: &str = "select coalesce(sum(octet_length(payload::text)), 0)::bigint from windlass.job";

/// 961 instants of 720 KB each.
#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_creates_no_more_than_eight_mebibytes_and_says_how_many_it_would() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    define(&queue).await;
    let trigger = create(&queue, &large(each_minute())).await;
    let until = Timestamp::from_second(Timestamp::now().as_second() / 60 * 60 - 3600).unwrap();
    let backfill = async |minutes: i64| {
        let range = until - SignedDuration::from_mins(minutes)..=until;
        queue.backfill(DEFAULT_TENANT, trigger.id, range, false, "tester").await
    };
    for minutes in [960, 11] {
        let refused = backfill(minutes).await.unwrap_err();
        assert!(matches!(&refused, Error::Refused { field, .. } if field == "until"), "{refused}");
        let mebibytes = (minutes + 1) * 720_000 / (1 << 20) + 1;
        let expected = format!("the range creates about {mebibytes} MiB of payloads");
        assert!(refused.to_string().contains(&expected), "{refused} instead of {expected}");
        assert_eq!(jobs_of(&client, trigger.id).await, 0, "nothing of it was created");
    }
    // Eleven payloads are within the limit; they are written in several statements.
    let made = backfill(10).await.unwrap();
    assert_eq!(made.len(), 11);
    assert!(made.iter().all(|fire| fire.outcome == "fired"));
    assert!(made.is_sorted_by_key(|fire| fire.due_at));
    assert_eq!(jobs_of(&client, trigger.id).await, 11);
    assert!(count(&client, BYTES).await <= 8 << 20);
    // A thousand small ones are as many as before.
    let small = create(&queue, &each_minute()).await;
    let range = until - SignedDuration::from_mins(999)..=until;
    let made = queue.backfill(DEFAULT_TENANT, small.id, range, false, "tester").await.unwrap();
    assert_eq!(made.len(), 1000);
    assert_eq!(jobs_of(&client, small.id).await, 1000);
}

/// one trigger with a backlog of an hour would be 43 MB in one round, before anything of another tenant.
#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_of_large_payloads_is_fired_in_shares_and_no_tenant_waits_for_it() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    define(&queue).await;
    let all = every_minute().misfire(Misfire::FireAll).misfire_max(100).misfire_window_seconds(7200);
    let heavy = create(&queue, &large(all)).await;
    look_back(&client, &heavy, SignedDuration::from_mins(40)).await;
    let quiet = queue.tenant("quiet").await;
    let light = queue.create_trigger(quiet, &every_minute(), "tester").await.unwrap();
    look_back(&client, &light, SignedDuration::from_mins(1)).await;

    let keeper = keeper(&queue);
    keeper.run_once(Duty::Schedule).await.unwrap();
    assert!(jobs_of(&client, light.id).await > 0, "the other tenant has its share of the first round");
    let of_heavy = jobs_of(&client, heavy.id).await;
    assert!((1..=3).contains(&of_heavy), "{of_heavy} payloads of 720 KB in one round");
    fire_all(&keeper).await;
    let fired = fires(&queue, &heavy).await;
    assert!(fired.len() >= 37, "{}", fired.len());
    assert!(fired.iter().all(|fire| fire.outcome == "fired"), "no instant is lost");
    assert_eq!(jobs_of(&client, heavy.id).await, i64::try_from(fired.len()).unwrap());
}

/// the same for payloads that the definition refuses.
#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_of_refused_payloads_is_skipped_in_shares() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    define(&queue).await;
    let all = every_minute().misfire(Misfire::FireAll).misfire_max(100).misfire_window_seconds(7200);
    let heavy = create(&queue, &large(all)).await;
    look_back(&client, &heavy, SignedDuration::from_mins(40)).await;
    let refusing = json!({"properties": {"z": {"maxLength": 10}}});
    queue.define(&Definition::new("held").arg_schema(refusing)).await.unwrap();

    let keeper = keeper(&queue);
    keeper.run_once(Duty::Schedule).await.unwrap();
    let first = fires(&queue, &heavy).await.len();
    assert!((1..=3).contains(&first), "{first} payloads of 720 KB in one round");
    fire_all(&keeper).await;
    let skipped = fires(&queue, &heavy).await;
    assert!(skipped.len() >= 37, "{}", skipped.len());
    assert!(skipped.iter().all(|fire| fire.outcome == "skipped"), "each one is recorded");
}
