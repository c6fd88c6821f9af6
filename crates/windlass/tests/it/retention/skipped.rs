//! Jobs that a rule must not leave forever: those that were locked, uncommitted, depended on, held or failed to be deleted when
//! the rule was applied.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;
use windlass::job::State;
use windlass::keeper::Duty;
use windlass::setup::embedded::{Options, Postgres};
use windlass::{DEFAULT_TENANT, Definition, Queue};
use windlass_testing::{TestQueue, eventually, settings};

use super::{DAY, ended, prune, statuses};
use crate::poison::assert_shown;
use crate::support::{Hand, assert_counts_are_exact, count, ending, job, keeper, status};

const MINUTE: Duration = Duration::from_secs(60);
const PASSED: &str = "select count(*) from windlass.prune_passed";

async fn start(definition: Definition) -> (TestQueue, Hand) {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    queue.define(&definition).await.unwrap();
    (queue, hand)
}

/// An operator who reads a job with `for update`, or whose retry is rolled back.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_locked_during_its_rule_is_deleted_later() {
    let (queue, hand) = start(Definition::new("held").retention(State::Succeeded, DAY)).await;
    let jobs = [ended(&hand, "'held'", None, 3).await, ended(&hand, "'held'", None, 2).await];
    let other = queue.client().await;
    other
        .batch_execute(&format!("begin; select windlass.retry('{DEFAULT_TENANT}', '{}', 'tester')", jobs[0]))
        .await
        .unwrap();
    for round in 0..3 {
        prune(&queue).await;
        assert_eq!(statuses(&hand, &jobs).await, ["succeeded", "missing"], "round {round}");
    }
    other.batch_execute("rollback").await.unwrap();
    prune(&queue).await;
    assert_eq!(status(&hand.client, jobs[0]).await, "missing");
    assert_eq!(count(&hand.client, PASSED).await, 0);
    assert_counts_are_exact(&hand.client).await;
}

/// A skipped job that is retried or deleted by hand leaves no rows.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_locked_by_a_retry_or_a_deletion_leaves_no_rows() {
    let (queue, hand) = start(Definition::new("held").retention(State::Succeeded, DAY)).await;
    let jobs = [ended(&hand, "'held'", None, 3).await, ended(&hand, "'held'", None, 2).await];
    let other = queue.client().await;
    let act = format!(
        "begin; select windlass.retry('{DEFAULT_TENANT}', '{}', 'tester'); select windlass.purge('{DEFAULT_TENANT}', array['{}']::uuid[])",
        jobs[0], jobs[1]
    );
    other.batch_execute(&act).await.unwrap();
    keeper(&queue).run_once(Duty::Prune).await.unwrap();
    other.batch_execute("commit").await.unwrap();
    keeper(&queue).run_once(Duty::Prune).await.unwrap();
    assert_eq!(statuses(&hand, &jobs).await, ["queued", "missing"]);
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, None).await);
    prune(&queue).await;
    assert_eq!(status(&hand.client, jobs[0]).await, "succeeded", "it has ended just now");
    assert_eq!(count(&hand.client, PASSED).await, 0);
    assert_counts_are_exact(&hand.client).await;
}

/// An hour passes for everything that is written, but not for open transactions.
const AN_HOUR: &str = "update windlass.history set finished_at = finished_at - interval '1 hour';
    update windlass.keeper_mark set reached = reached - interval '1 hour' where reached > '-infinity';
    update windlass.prune_mark set ended_before = ended_before - interval '1 hour', seen_at = seen_at - interval '1 hour'";

/// A job has the time at which it ended, and becomes visible when that is committed. Rounds run in between.
async fn a_late_end(queue: &Queue, hand: &Hand, other: &Client, is_prepared: bool) {
    let [early, late] = [hand.enqueue("'held'").await, hand.enqueue("'held'").await];
    hand.cancel(early).await;
    let cancel = format!("begin; select windlass.cancel('{DEFAULT_TENANT}', '{late}')");
    other.batch_execute(&cancel).await.unwrap();
    if is_prepared {
        other.batch_execute(&format!("prepare transaction '{late}'")).await.unwrap();
    }
    hand.client.batch_execute(AN_HOUR).await.unwrap();
    for _ in 0..3 {
        keeper(queue).run_once(Duty::Prune).await.unwrap();
    }
    assert_eq!(status(&hand.client, early).await, "missing");
    let commit = if is_prepared { format!("commit prepared '{late}'") } else { "commit".to_owned() };
    other.batch_execute(&commit).await.unwrap();
    let an_hour = "update windlass.history set finished_at = finished_at - interval '1 hour'";
    hand.client.execute(an_hour, &[]).await.unwrap();
    keeper(queue).run_once(Duty::Prune).await.unwrap();
    assert_eq!(status(&hand.client, late).await, "missing");
    assert_counts_are_exact(&hand.client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_end_commits_late_is_deleted() {
    let (queue, hand) = start(Definition::new("held").retention(State::Canceled, MINUTE)).await;
    a_late_end(&queue, &hand, &queue.client().await, false).await;
}

/// On a separate server, because it must allow prepared transactions.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_end_is_prepared_and_commits_late_is_deleted() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().simple().to_string());
    std::fs::create_dir_all(&directory).unwrap();
    let mut options = Options::new(directory.join("data")).unwrap();
    options.settings.push(("max_prepared_transactions".to_owned(), "5".to_owned()));
    let postgres = Postgres::start(&options).await.unwrap();
    windlass::migrate(&settings(&postgres.url())).await.unwrap();
    let queue = Queue::connect(settings(&postgres.url())).await.unwrap();
    queue.define(&Definition::new("held").retention(State::Canceled, MINUTE)).await.unwrap();
    let hand = Hand::new(connect(&postgres.url()).await).await;
    a_late_end(&queue, &hand, &connect(&postgres.url()).await, true).await;
    drop((queue, hand));
    postgres.stop().await.unwrap();
    let _ = std::fs::remove_dir_all(&directory);
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Transaction ids start again in a database that was restored into another cluster.
#[tokio::test(flavor = "multi_thread")]
async fn the_marks_stay_valid_after_a_restore_into_another_cluster() {
    let (queue, hand) = start(Definition::new("held").retention(State::Canceled, MINUTE)).await;
    hand.client.batch_execute("update windlass.prune_mark set seen_xid = '9000000000'").await.unwrap();
    let far = "select count(*) from windlass.prune_mark where ended_before > now() - interval '2 minutes'";
    eventually("the mark has advanced", async || {
        keeper(&queue).run_once(Duty::Prune).await.unwrap();
        count(&hand.client, far).await == 1
    })
    .await;
}

/// The skipped job belongs to another rule by the time it may be deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_former_dependency_is_deleted_by_the_rule_of_that_time() {
    let set = format!("select windlass.set_retention('{DEFAULT_TENANT}', 'held', 'failed', 86400, false)");
    let clear = format!("select windlass.set_retention('{DEFAULT_TENANT}', 'held', 'failed', null, true)");
    for (before, after) in [("select", &set), (&set, &clear)] {
        let (queue, hand) = start(Definition::new("held").retention(State::Failed, DAY)).await;
        hand.client.batch_execute(before).await.unwrap();
        let need = ended(&hand, "'held'", Some(ending::failed()), 3).await;
        let waits =
            hand.enqueue(&format!("'held', depends_on => array['{need}']::uuid[], if_unmet => 'wait'")).await;
        prune(&queue).await;
        hand.client.batch_execute(after).await.unwrap();
        prune(&queue).await;
        assert_eq!(statuses(&hand, &[need, waits]).await, ["failed", "blocked"]);
        hand.cancel(waits).await;
        prune(&queue).await;
        assert_eq!(status(&hand.client, need).await, "missing", "{after}");
    }
}

/// The round saw the hold, and sets its mark after the hold was released.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_is_released_during_a_round_leaves_no_rows() {
    let (queue, hand) = start(Definition::new("held").retention(State::Succeeded, DAY)).await;
    let held = ended(&hand, "'held'", None, 3).await;
    let place = "select windlass.place_hold($1, $2, null, null, 'law', 'tester')";
    let hold: Uuid = hand.client.query_one(place, &[&DEFAULT_TENANT, &held]).await.unwrap().get(0);
    let round = queue.client().await;
    round.batch_execute("begin; select windlass.prune(100)").await.unwrap();
    let other = queue.client().await;
    other.batch_execute("set lock_timeout = '5s'").await.unwrap();
    let release = "select windlass.release_hold($1, $2)";
    other.execute(release, &[&DEFAULT_TENANT, &hold]).await.unwrap();
    round.batch_execute("commit").await.unwrap();
    prune(&queue).await;
    assert_eq!(status(&hand.client, held).await, "missing");
}

/// More held jobs than fit into one round, and jobs whose clean-up cannot be enqueued, before one that is ready.
#[tokio::test(flavor = "multi_thread")]
async fn clean_ups_that_cannot_finish_do_not_block_the_others() {
    let tts = Definition::new("tts").retention(State::Succeeded, DAY).on_purge("remove-audio");
    let (queue, hand) = start(tts).await;
    queue.define(&Definition::new("remove-audio")).await.unwrap();
    let artifact = json!({"outcome": 1, "next": 1, "failures": 0, "lost": 0, "snoozes": 0, "artifact": {"path": "a.mp3"}});
    let mut jobs = Vec::new();
    for _ in 0..7 {
        jobs.push(ended(&hand, "'tts'", Some(artifact.clone()), 2).await);
    }
    prune(&queue).await;
    for fence in hand.claim_all().await {
        assert!(hand.settle(&fence, None).await);
    }
    let place = "select windlass.place_hold($1, $2, null, null, 'law', 'tester')";
    for held in &jobs[..3] {
        hand.client.execute(place, &[&DEFAULT_TENANT, held]).await.unwrap();
    }
    // The clean-up job of these was deleted, and there is no definition to create it again.
    let lose = "update windlass.purge_wait set cleanup_job_id = '00000000-0000-0000-0000-000000000000' where job_id = any ($1)";
    hand.client.execute(lose, &[&&jobs[3..6]]).await.unwrap();
    hand.client
        .execute("update windlass.job_definitions set on_purge = 'gone' where key = 'tts'", &[])
        .await
        .unwrap();
    for _ in 0..4 {
        hand.client.execute("select windlass.prune(2)", &[]).await.unwrap();
    }
    let left = statuses(&hand, &jobs).await;
    assert_eq!(left.iter().filter(|one| *one == "succeeded").count(), 6, "{left:?}");
    assert_eq!(left[6], "missing");
}

/// A job that the database cannot delete, among others of its round.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_be_deleted_is_skipped() {
    let (queue, hand) = start(Definition::new("held").retention(State::Succeeded, DAY)).await;
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(ended(&hand, "'held'", None, 2).await);
    }
    let spoil = format!(
        "create function public.refuse() returns trigger language plpgsql as 'begin raise exception ''a broken row''; end';
         create trigger refuse before delete on windlass.job for each row when (old.id = '{}') execute function public.refuse()",
        jobs[1]
    );
    hand.client.batch_execute(&spoil).await.unwrap();
    for _ in 0..3 {
        keeper(&queue).run_once(Duty::Prune).await.unwrap();
        assert_eq!(statuses(&hand, &jobs).await, ["missing", "succeeded", "missing"]);
    }
    assert_shown(&queue, &jobs[1].to_string(), "a broken row").await;
    // It is retried, and deleted once that is possible.
    hand.client.batch_execute("drop trigger refuse on windlass.job").await.unwrap();
    let later = "update windlass.problem set seen_at = seen_at - interval '2 minutes'";
    hand.client.batch_execute(later).await.unwrap();
    prune(&queue).await;
    assert_eq!(status(&hand.client, jobs[1]).await, "missing");
    assert_eq!(count(&hand.client, "select count(*) from windlass.problem").await, 0);
    assert_counts_are_exact(&hand.client).await;
}

/// A tenant whose events fill every round.
#[tokio::test(flavor = "multi_thread")]
async fn the_old_events_of_every_tenant_are_deleted() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    let tenants = [queue.tenant("a").await, queue.tenant("b").await];
    let write = "insert into windlass.event (tenant_id, id, name, payload, emitted_at)
        select t, windlass.uuid7_floor(now() - n * interval '40 days'), 'a.b', '{}', now() from unnest($1::uuid[]) t, generate_series(1, 200) n";
    hand.client.execute(write, &[&&tenants[..]]).await.unwrap();
    for _ in 0..50 {
        hand.client.execute("select windlass.prune_events(1)", &[]).await.unwrap();
    }
    for tenant in tenants {
        let left =
            count(&hand.client, &format!("select count(*) from windlass.event where tenant_id = '{tenant}'"))
                .await;
        assert!(left < 200, "{left}");
    }
}

/// `enqueue` accepted half a subject before, and refuses it now.
#[tokio::test(flavor = "multi_thread")]
async fn the_artifact_of_an_old_job_with_half_a_subject_is_cleaned_up() {
    for half in ["subject_type", "subject_id"] {
        let queue = TestQueue::create().await;
        let hand = Hand::new(queue.client().await).await;
        queue.define(&Definition::new("remove-audio")).await.unwrap();
        let tts = Definition::new("tts").retention(State::Succeeded, DAY).on_purge("remove-audio");
        queue.define(&tts).await.unwrap();
        let artifact =
            json!({"outcome": 1, "next": 1, "failures": 0, "lost": 0, "snoozes": 0, "artifact": "a"});
        ended(&hand, "'tts', subject_type => 'case', subject_id => '12'", Some(artifact), 2).await;
        hand.client.execute(&format!("update windlass.job set {half} = null"), &[]).await.unwrap();
        prune(&queue).await;
        let clean_up = hand.claim_one().await;
        assert_eq!(job(&hand.client, clean_up.job).await["definition_key"], "remove-audio", "without {half}");
        assert!(hand.settle(&clean_up, None).await);
    }
}
