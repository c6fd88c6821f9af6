//! A skipped row is shown while the problem exists, and no longer.

use serde_json::json;
use windlass::DEFAULT_TENANT;
use windlass::keeper::Duty;
use windlass_testing::{TestQueue, eventually};

use super::{assert_shown, jobs, rows, set_aside};
use crate::support::{Hand, count, keeper, status};

/// The dependency of a waiting job has ended, and only the keeper has noticed.
async fn waits_for_an_ended_job(hand: &Hand, arguments: &str, final_status: i16) -> uuid::Uuid {
    hand.define(json!({"key": "held"})).await;
    let need = hand.enqueue("'held'").await;
    let waits = hand.enqueue(&format!("'held', depends_on => array['{need}'::uuid]{arguments}")).await;
    let end = format!(
        "delete from windlass.line where '{need}' = any (ids);
         insert into windlass.history (tenant_id, job_id, finished_at, attempt, lane, outcome, job_status)
           select tenant_id, id, clock_timestamp(), 1, lane, {final_status}, {final_status} from windlass.job where id = '{need}';
         insert into windlass.unblock_due (tenant_id, needs_job_id) values ('{DEFAULT_TENANT}', '{need}')"
    );
    hand.client.batch_execute(&end).await.unwrap();
    waits
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_did_not_recur_for_a_day_is_hidden() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let note = "select windlass.note_problem('unblock', $1, 'a job', 'why')";
    client.execute(note, &[&DEFAULT_TENANT]).await.unwrap();
    assert_shown(&queue, "a job", "why").await;
    let age = "update windlass.problem set seen_at = seen_at - interval '25 hours'";
    client.batch_execute(age).await.unwrap();
    assert!(set_aside(&queue).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_queued_later_is_not_shown() {
    let queue = TestQueue::create().await;
    jobs::unblock(&queue).await;
    let client = queue.client().await;
    client.batch_execute("delete from windlass.line where job_id is not null").await.unwrap();
    eventually("nothing is left", async || {
        keeper(&queue).run_once(Duty::Unblock).await.unwrap();
        set_aside(&queue).await.is_empty()
    })
    .await;
    assert_eq!(count(&client, "select count(*) from windlass.blocked").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_that_was_folded_later_is_not_shown() {
    let queue = TestQueue::create().await;
    rows::fold(&queue).await;
    let client = queue.client().await;
    let fix = "update windlass.total set queued = 0 where lane = -7;
                update windlass.problem set seen_at = seen_at - interval '2 minutes'";
    client.batch_execute(fix).await.unwrap();
    for _ in 0..2 {
        keeper(&queue).run_once(Duty::Fold).await.unwrap();
    }
    assert!(set_aside(&queue).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_that_was_fixed_is_not_shown() {
    let queue = TestQueue::create().await;
    rows::dispatch(&queue).await;
    let client = queue.client().await;
    let fix = "delete from windlass.event_pending p where not exists (select from windlass.event e where e.id = p.event_id);
        update windlass.job_triggers t set conditions = '[]', updated_at = clock_timestamp()
        from windlass.problem r where r.subject = t.id::text";
    client.batch_execute(fix).await.unwrap();
    assert!(set_aside(&queue).await.is_empty());
}

/// Another transaction holds the lock: that is temporary, and not an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_release_waits_for_a_lock_is_not_shown() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    let waits = waits_for_an_ended_job(&hand, ", dedupe_key => 'k'", 2).await;
    let holder = queue.client().await;
    holder.batch_execute("begin; select from windlass.dedupe for update").await.unwrap();
    keeper(&queue).run_once(Duty::Unblock).await.unwrap();
    assert_eq!(count(&hand.client, "select count(*) from windlass.problem").await, 0);
    assert_eq!(status(&hand.client, waits).await, "blocked");
    holder.batch_execute("rollback").await.unwrap();
    keeper(&queue).run_once(Duty::Unblock).await.unwrap();
    assert_eq!(status(&hand.client, waits).await, "canceled");
}

/// A lack of server resources is not an error of the job either: the duty fails and is retried.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_during_a_release_fails_the_duty() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    let waits = waits_for_an_ended_job(&hand, "", 1).await;
    let full = "create function public.full() returns trigger language plpgsql as
          $$ begin raise exception 'the disk is full' using errcode = '53100'; end $$;
        create trigger is_full before delete on windlass.blocked for each row execute function public.full()";
    hand.client.batch_execute(full).await.unwrap();
    let failed = hand.client.execute("select windlass.unblock_rest(10)", &[]).await.unwrap_err();
    assert_eq!(failed.code().unwrap().code(), "53100");
    keeper(&queue).run_once(Duty::Unblock).await.unwrap_err();
    assert_eq!(count(&hand.client, "select count(*) from windlass.problem").await, 0);
    hand.client.batch_execute("drop trigger is_full on windlass.blocked").await.unwrap();
    keeper(&queue).run_once(Duty::Unblock).await.unwrap();
    assert_eq!(status(&hand.client, waits).await, "queued");
}

/// retention keeps such jobs, because their artifacts are never forgotten, and says so.
#[tokio::test(flavor = "multi_thread")]
async fn an_on_purge_that_cannot_run_is_shown() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held", "on_purge": "remove"})).await;
    assert_shown(&queue, "held", "on_purge is remove, which does not exist").await;
    hand.define(json!({"key": "remove", "is_active": false})).await;
    assert_shown(&queue, "held", "on_purge is remove, which is not active").await;
    hand.define(json!({"key": "remove", "is_active": true})).await;
    assert!(set_aside(&queue).await.is_empty());
}
