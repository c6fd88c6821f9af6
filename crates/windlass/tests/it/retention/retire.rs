//! Large old partitions are replaced: what stays is copied, whatever happens meanwhile, and the rest is dropped.

mod blocks;
mod interrupted;
mod meanwhile;
mod others;
pub(crate) mod pages;
mod readers;
mod stuck;

use std::time::Duration;

use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;
use uuid::{NoContext, Uuid};
use windlass::job::State;
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass::retention::HoldOn;
use windlass::{DEFAULT_TENANT, Definition};
use windlass_testing::{TestQueue, eventually};

use super::DAY;
use crate::support::{Hand, assert_counts_are_exact, count, ending, keeper, status};

const DAYS_AGO: i64 = 20;

/// The steps after which something can happen before the exchange.
const BETWEEN: [&str; 3] = ["begun", "copied", "caught up"];

/// Every partition is large enough to be replaced, and one has enough jobs to go if it has one.
const EAGER: &str = "set role windlass_owner;
    create or replace function windlass.large_partition() returns integer language sql immutable parallel safe return 0;
    create or replace function windlass.enough_due(jobs bigint) returns bigint language sql immutable parallel safe return 1;
    reset role";

/// A scheduled job ($2) waits for an ended one ($1) instead, as if another transaction had read the state before the end.
pub(crate) const BLOCK: &str = "with d as (delete from windlass.deferred where job_id = $2 returning *),
    b as (insert into windlass.blocked (tenant_id, job_id, lane, max_attempts)
      select tenant_id, job_id, lane, max_attempts from d returning *),
    t as (insert into windlass.tally (tenant_id, lane, scheduled, blocked) select tenant_id, lane, -1, 1 from b)
    insert into windlass.dependency (tenant_id, needs_job_id, job_id, if_unmet) select tenant_id, $1, job_id, 'wait' from b";

/// A queue with an empty partition of twenty days ago. Jobs that succeed are kept for a day, others for a hundred.
pub(crate) async fn aged() -> (TestQueue, Hand) {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    prepare(&queue, &hand).await;
    (queue, hand)
}

pub(crate) async fn prepare(queue: &TestQueue, hand: &Hand) {
    let kept = Definition::new("held").retention(State::Succeeded, DAY).retention(State::Failed, DAY * 100);
    queue.define(&kept).await.unwrap();
    hand.client.batch_execute(EAGER).await.unwrap();
    age_partitions(&hand.client).await;
}

async fn age_partitions(client: &Client) {
    make_partitions(client, DAYS_AGO).await;
}

async fn make_partitions(client: &Client, days_ago: i64) {
    let make = format!(
        "set role windlass_owner;
         select windlass.make_partition(p, (now() at time zone 'UTC')::date - {days_ago}) from unnest(windlass.partitioned()) p;
         reset role"
    );
    client.batch_execute(&make).await.unwrap();
}

/// An id of version 7 in that partition.
pub(crate) fn old_id() -> Uuid {
    id_of(DAYS_AGO)
}

fn id_of(days_ago: i64) -> Uuid {
    let then = Timestamp::now() - (24 * days_ago).hours();
    Uuid::new_v7(uuid::Timestamp::from_unix(NoContext, u64::try_from(then.as_second()).unwrap(), 0))
}

/// Enqueues a job of that partition; `more` are further arguments of the SQL function.
pub(crate) async fn enqueue_old(hand: &Hand, more: &str) -> Uuid {
    hand.enqueue(&format!("'held', job_id => '{}'{more}", old_id())).await
}

/// The same, ended nineteen days ago.
pub(crate) async fn end_old(hand: &Hand, more: &str, detail: Option<Value>) -> Uuid {
    let id = enqueue_old(hand, more).await;
    let fence = hand.claim_all().await.into_iter().find(|fence| fence.job == id).expect("it is queued");
    assert!(hand.settle(&fence, detail).await);
    age(&hand.client, id).await;
    id
}

pub(crate) async fn age(client: &Client, id: Uuid) {
    let age = "update windlass.history set finished_at = finished_at - interval '19 days' where job_id = $1";
    client.execute(age, &[&id]).await.unwrap();
}

/// One step, as the keeper does it.
pub(crate) async fn step(client: &Client) -> String {
    client.query_one("select step from windlass.retire()", &[]).await.unwrap().get(0)
}

/// Steps until this one was done.
pub(crate) async fn until_step(client: &Client, wanted: &str) {
    let what = format!("the step {wanted}");
    eventually(&what, async || {
        let step = step(client).await;
        assert!(step == wanted || !["none", "failed"].contains(&step.as_str()), "{step} before {wanted}");
        step == wanted
    })
    .await;
}

/// The names of the tables of history that contain jobs of that day.
async fn parts(client: &Client) -> Vec<String> {
    let names = "select b.name from windlass.partition_bounds('history') b where b.high < windlass.uuid7_floor(now() - interval '2 days')";
    client.query(names, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// Nothing is left of a replacement.
pub(crate) async fn assert_is_over(client: &Client) {
    for table in ["retiring", "retiring_change", "retiring_gone", "retiring_tenant", "retiring_back"] {
        assert_eq!(count(client, &format!("select count(*) from windlass.{table}")).await, 0, "{table}");
    }
    let problems =
        client.query("select name, problem from windlass.partition_problems()", &[]).await.unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    let triggers = "select count(*) from pg_trigger where tgname = 'note_change'";
    assert_eq!(count(client, triggers).await, 0);
    let guards = "select count(*) from pg_constraint where conname in ('not_retiring', 'in_range')";
    assert_eq!(count(client, guards).await, 0);
    assert_counts_are_exact(client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_old_partition_is_replaced_by_one_with_what_stays() {
    let (queue, hand) = aged().await;
    let client = &hand.client;
    queue.define(&Definition::new("remove")).await.unwrap();
    queue
        .define(&Definition::new("filed").retention(State::Succeeded, DAY).on_purge("remove"))
        .await
        .unwrap();
    let acme = queue.tenant("acme").await;
    queue.set_retention(acme, Some("held"), State::Succeeded, Some(DAY * 365), "tester").await.unwrap();
    let forever = queue.tenant("forever").await;
    queue.set_retention(forever, None, State::Succeeded, None, "tester").await.unwrap();

    let goes = [end_old(&hand, "", None).await, end_old(&hand, ", dedupe_key => 'k'", None).await];
    let failed = end_old(&hand, "", Some(ending::failed())).await;
    let of_acme = end_old(&hand, &format!(", tenant_id => '{acme}'"), None).await;
    let of_forever = end_old(&hand, &format!(", tenant_id => '{forever}'"), None).await;
    let held = end_old(&hand, "", None).await;
    queue.hold(DEFAULT_TENANT, &HoldOn::Job(held), "case 12", "counsel").await.unwrap();
    let subject = end_old(&hand, ", subject_type => 's', subject_id => '7'", None).await;
    let what = HoldOn::Subject { kind: "s".to_owned(), id: "7".to_owned() };
    queue.hold(DEFAULT_TENANT, &what, "case 13", "counsel").await.unwrap();
    let recent = end_old(&hand, "", None).await;
    client
        .execute("update windlass.history set finished_at = now() where job_id = $1", &[&recent])
        .await
        .unwrap();
    let needed = end_old(&hand, "", Some(ending::failed())).await;
    client
        .execute("update windlass.history set job_status = 1, outcome = 1 where job_id = $1", &[&needed])
        .await
        .unwrap();
    let counted = "insert into windlass.tally (tenant_id, lane, succeeded, failed)
        select tenant_id, lane, 1, -1 from windlass.history where job_id = $1";
    client.execute(counted, &[&needed]).await.unwrap();
    let waits = hand.enqueue("'held', delay => '1 hour'").await;
    client.execute(BLOCK, &[&needed, &waits]).await.unwrap();
    let artifact = hand.enqueue(&format!("'filed', job_id => '{}'", old_id())).await;
    let fence = hand.claim_one().await;
    let detail =
        json!({"outcome": 1, "next": 1, "failures": 0, "lost": 0, "snoozes": 0, "artifact": {"file": "a"}});
    assert!(hand.settle(&fence, Some(detail)).await);
    age(client, artifact).await;
    let running = enqueue_old(&hand, "").await;
    let fence = hand.claim_one().await;
    assert!(hand.progress(&fence).await);
    let queued = enqueue_old(&hand, "").await;
    let scheduled = enqueue_old(&hand, ", delay => '5 years'").await;
    let stays =
        [failed, of_acme, of_forever, held, subject, recent, needed, artifact, running, queued, scheduled];
    let before: Vec<String> = super::statuses(&hand, &stays).await;
    assert_eq!(before[8..], ["running", "queued", "scheduled"]);

    until_step(client, "dropped").await;
    assert_eq!(super::statuses(&hand, &goes).await, ["missing", "missing"]);
    assert_eq!(super::statuses(&hand, &stays).await, before);
    assert_is_over(client).await;
    assert_eq!(count(client, "select count(*) from windlass.progress").await, 1);
    let purged = "select sum(purged)::bigint from windlass.job_counts";
    assert_eq!(count(client, purged).await, 2);
    let progress = queue.retention_progress().await.unwrap();
    let rule = progress
        .iter()
        .find(|rule| rule.status == "succeeded" && rule.definition_key == "held" && rule.tenant_id.is_none());
    assert_eq!(rule.unwrap().purged, Some(2));

    // What stayed works: the running one ends, the artifact is removed first, and then its job goes.
    assert!(hand.settle(&fence, None).await);
    let keeper = keeper(&queue);
    keeper.run_once(Duty::Prune).await.unwrap();
    let cleanups = hand.claim_all().await;
    assert_eq!(cleanups.len(), 2, "the queued job and the clean-up");
    for fence in &cleanups {
        assert!(hand.settle(fence, None).await);
    }
    eventually("the job with the artifact is deleted", async || {
        keeper.run_once(Duty::Prune).await.unwrap();
        status(client, artifact).await == "missing"
    })
    .await;
    assert_counts_are_exact(client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_partition_has_the_owner_the_row_security_and_the_settings_of_the_old_one() {
    let (queue, hand) = aged().await;
    let client = &hand.client;
    end_old(&hand, "", None).await;
    end_old(&hand, "", Some(ending::failed())).await;
    let [old] = &parts(client).await[..] else { panic!("one partition") };
    client.batch_execute(&format!("alter table windlass.{old} set (fillfactor = 77)")).await.unwrap();
    let look = "select c.relowner::regrole::text, c.relrowsecurity, c.relforcerowsecurity, c.reloptions, c.relacl::text,
            array(select p.polname::text from pg_policy p where p.polrelid = c.oid order by 1),
            array(select pg_get_constraintdef(k.oid) from pg_constraint k where k.conrelid = c.oid order by 1),
            (select count(*) from pg_index i where i.indrelid = c.oid)
        from pg_class c where c.oid = to_regclass($1)";
    let describe = async |part: &str| {
        let row = client
            .query_one(&format!("select r::text from ({look}) r"), &[&format!("windlass.{part}")])
            .await;
        row.unwrap().get::<_, String>(0)
    };
    let before = describe(old).await;
    assert!(before.contains("fillfactor=77"), "{before}");
    until_step(client, "dropped").await;
    let [new] = &parts(client).await[..] else { panic!("one partition") };
    assert_ne!(new, old);
    assert_eq!(describe(new).await, before);
    let settings =
        "select reloptions::text from pg_class where relname like 'progress\\_20%' order by relname limit 1";
    let settings: String = client.query_one(settings, &[]).await.unwrap().get(0);
    assert_eq!(settings, "{fillfactor=70}");
    drop(queue);
}

/// If nothing stays, nothing takes the place of the partition.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_without_jobs_that_stay_is_only_dropped() {
    let (queue, hand) = aged().await;
    let ids = [end_old(&hand, "", None).await, end_old(&hand, "", None).await];
    let keeper = keeper(&queue);
    let mut moved = 0;
    eventually("it is replaced", async || {
        let round = keeper.run_once(Duty::Retire).await.unwrap();
        moved += round.moved;
        moved == 2 && round.next.is_none()
    })
    .await;
    assert_eq!(super::statuses(&hand, &ids).await, ["missing", "missing"]);
    assert!(parts(&hand.client).await.is_empty());
    assert_is_over(&hand.client).await;
    // An application may still choose such an id.
    let late = enqueue_old(&hand, "").await;
    assert_eq!(status(&hand.client, late).await, "queued");
}

/// `run_once` does not take the lead, without which a running keeper does nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_keeper_replaces_partitions() {
    let (queue, hand) = aged().await;
    end_old(&hand, "", None).await;
    let day = Duration::from_secs(86_400);
    // Nothing else deletes the job.
    let settings = KeeperSettings::default().retire(Duration::from_millis(10)).prune(day);
    let stop = CancellationToken::new();
    let running = tokio::spawn(Keeper::new(queue.queue().clone(), settings).run(stop.clone()));
    eventually("it is replaced", async || parts(&hand.client).await.is_empty()).await;
    stop.cancel();
    running.await.unwrap();
}

/// Ids that are not of version 7 are in the default partition, or among those of the time that they look like.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_with_ids_that_are_not_of_version_7_are_deleted_too() {
    let (queue, hand) = aged().await;
    let client = &hand.client;
    let of_that_day =
        uuid::Builder::from_bytes(old_id().into_bytes()).with_version(uuid::Version::Random).into_uuid();
    let elsewhere = Uuid::from_u128(Uuid::new_v4().as_u128() | 1 << 127);
    for id in [of_that_day, elsewhere] {
        hand.enqueue(&format!("'held', job_id => '{id}'")).await;
        let fence = hand.claim_one().await;
        assert!(hand.settle(&fence, None).await);
        age(client, id).await;
    }
    until_step(client, "dropped").await;
    assert_eq!(super::statuses(&hand, &[of_that_day, elsewhere]).await, ["missing", "succeeded"]);
    super::prune(&queue).await;
    assert_eq!(status(client, elsewhere).await, "missing");
    assert_is_over(client).await;
}

/// Rows of the tables that are not replaced.
#[tokio::test(flavor = "multi_thread")]
async fn ordering_keys_of_deleted_jobs_are_deleted() {
    let (queue, hand) = aged().await;
    end_old(&hand, ", ordering_key => 'gone'", None).await;
    let next = hand.enqueue("'held', ordering_key => 'stays'").await;
    until_step(&hand.client, "dropped").await;
    super::prune(&queue).await;
    let keys = hand.client.query("select ordering_key from windlass.ordering", &[]).await.unwrap();
    assert_eq!(keys.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>(), ["stays"]);
    assert_eq!(status(&hand.client, next).await, "queued");
}

/// Row by row in small partitions, which cost nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_small_partition_is_not_replaced() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    queue.define(&Definition::new("held").retention(State::Succeeded, DAY)).await.unwrap();
    age_partitions(&hand.client).await;
    let id = end_old(&hand, "", None).await;
    assert_eq!(step(&hand.client).await, "none");
    super::prune(&queue).await;
    assert_eq!(status(&hand.client, id).await, "missing");
}

/// The keeper rests between steps that have nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_to_replace_is_no_work() {
    let (queue, hand) = aged().await;
    let id = end_old(&hand, "", Some(ending::failed())).await;
    let round = keeper(&queue).run_once(Duty::Retire).await.unwrap();
    assert_eq!((round.moved, round.is_full, round.next), (0, false, None::<Duration>));
    assert_eq!(status(&hand.client, id).await, "failed");
}
