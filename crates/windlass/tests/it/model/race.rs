//! Concurrent operations of two or three on one job: exactly one of them wins, all results agree on the winner, and the tables
//! are consistent afterwards. Each test is one known race.

mod track;

use uuid::Uuid;
use windlass::DEFAULT_TENANT;

use track::{FAILURE, RELEASE, RETRY, SUCCESS, Track, settle_all};

const LATER: &str = ", delay => interval '1 ms'";

fn cancel(job: Uuid) -> String {
    format!("select windlass.cancel('{DEFAULT_TENANT}', '{job}')")
}

fn retry(job: Uuid) -> String {
    format!("select result from windlass.retry('{DEFAULT_TENANT}', '{job}', 'race')")
}

fn purge(job: Uuid) -> String {
    format!("select windlass.purge('{DEFAULT_TENANT}', array['{job}'::uuid])::text")
}

fn enqueue(options: &str) -> String {
    format!(
        "select case when is_duplicate then 'duplicate' else status end from windlass.enqueue('race'{options})"
    )
}

fn claim(track: &Track, count: usize) -> String {
    let worker = track.worker();
    format!(
        "select count(*)::text from windlass.claim({worker}, gen_random_uuid(), array[{}], array[0], array[{count}])",
        track.lane
    )
}

const PROMOTE: &str = "select promoted::text from windlass.promote(100)";
const EXPIRE: &str = "select processed::text from windlass.expire(100)";
const CLOSE: &str = "select count(*)::text from windlass.lost_jobs(100)";
const FOLD: &str = "select windlass.fold_tallies(5)::text";

/// Runs the race for all rounds; `arrange` prepares the job, `judge` lists the allowed outcomes.
macro_rules! race {
    ($name:ident, |$track:ident, $round:ident| $body:block) => {
        #[tokio::test]
        async fn $name() {
            let $track = Track::create().await;
            for $round in 0..$track.rounds() {
                $track.clear().await;
                $body
            }
        }
    };
}

race!(a_completion_and_a_reap_settle_an_attempt_once, |track, round| {
    let run = track.running("").await;
    track.silence().await;
    let results = track.race(round, &[run.settle(SUCCESS), run.reap()]).await;
    match [&*results[0], &*results[1], &*track.state(run.job).await] {
        ["1", "0", "succeeded"] | ["0", "1", "scheduled"] => {}
        other => panic!("{other:?}"),
    }
});

race!(a_completion_that_meets_a_cancel_request_ends_as_one_of_them_says, |track, round| {
    let run = track.running("").await;
    let results = track.race(round, &[run.settle(SUCCESS), cancel(run.job)]).await;
    match [&*results[0], &*results[1], &*track.state(run.job).await] {
        ["1", "finished", "succeeded"] | ["overruled", "requested", "canceled"] => {}
        other => panic!("{other:?}"),
    }
});

race!(a_failure_to_be_tried_again_never_outlives_a_cancel, |track, round| {
    let run = track.running("").await;
    let results = track.race(round, &[run.settle(RETRY), cancel(run.job)]).await;
    match [&*results[0], &*results[1], &*track.state(run.job).await] {
        ["1", "canceled", "canceled"] | ["overruled", "requested", "canceled"] => {}
        other => panic!("{other:?}"),
    }
});

race!(a_release_never_outlives_a_cancel, |track, round| {
    let run = track.running("").await;
    let results = track.race(round, &[run.settle(RELEASE), cancel(run.job)]).await;
    match [&*results[0], &*results[1], &*track.state(run.job).await] {
        ["1", "canceled", "canceled"] | ["overruled", "requested", "canceled"] => {}
        other => panic!("{other:?}"),
    }
});

race!(a_canceled_job_is_not_started, |track, round| {
    let job = track.enqueue("").await;
    let results = track.race(round, &[claim(&track, 1), cancel(job)]).await;
    match [&*results[0], &*results[1], &*track.state(job).await] {
        ["1", "requested", "running"] | ["0", "canceled", "canceled"] => {}
        other => panic!("{other:?}"),
    }
});

race!(two_cancels_cancel_once, |track, round| {
    let job = track.enqueue("").await;
    let mut results = track.race(round, &[cancel(job), cancel(job)]).await;
    results.sort_unstable();
    assert_eq!(results, ["canceled", "finished"]);
});

race!(a_heartbeat_in_time_keeps_the_jobs, |track, round| {
    let run = track.running("").await;
    track.silence().await;
    let results = track.race(round, &[run.heartbeat(), run.reap()]).await;
    match [&*results[0], &*results[1], &*track.state(run.job).await] {
        ["1", "0", "running"] | ["1", "1", "scheduled"] => {}
        other => panic!("{other:?}"),
    }
});

race!(a_worker_is_not_closed_while_it_claims, |track, round| {
    track.enqueue("").await;
    track.silence().await;
    let results = track.race(round, &[claim(&track, 1), CLOSE.to_owned()]).await;
    assert!(matches!([&*results[0], &*results[1]], ["1" | "0", "0"] | ["1", "1"]), "{results:?}");
});

race!(four_claims_take_every_job_once, |track, round| {
    for _ in 0..10 {
        track.enqueue("").await;
    }
    let results = track.race(round, &[0; 4].map(|_| claim(&track, 4))).await;
    let taken: i32 = results.iter().map(|count| count.parse::<i32>().unwrap()).sum();
    assert!((4..=10).contains(&taken), "{results:?}");
    let left = track.ask("select count(*)::text from windlass.queued").await;
    assert_eq!(left, (10 - taken).to_string());
});

race!(two_promoters_promote_every_job_once, |track, round| {
    for _ in 0..6 {
        track.enqueue(LATER).await;
    }
    track.ask("update windlass.deferred set due_at = now() - interval '1 s' returning ''").await;
    let results = track.race(round, &[PROMOTE, PROMOTE].map(str::to_owned)).await;
    let promoted: i32 = results.iter().map(|count| count.parse::<i32>().unwrap()).sum();
    assert_eq!(promoted, 6);
});

race!(one_of_three_enqueues_gets_the_dedupe_key, |track, round| {
    let mut results = track.race(round, &[0; 3].map(|_| enqueue(", dedupe_key => 'k'"))).await;
    results.sort_unstable();
    assert_eq!(results, ["duplicate", "duplicate", "queued"]);
});

race!(one_of_three_equal_requests_makes_the_job, |track, round| {
    let request = format!(", idempotency_key => '{}'", Uuid::new_v4());
    let mut results = track.race(round, &[0; 3].map(|_| enqueue(&request))).await;
    results.sort_unstable();
    assert_eq!(results, ["duplicate", "duplicate", "queued"]);
});

race!(a_retry_and_an_enqueue_do_not_share_a_dedupe_key, |track, round| {
    let run = track.running(", dedupe_key => 'k'").await;
    track.ask(&run.settle(FAILURE)).await;
    let mut results = track.race(round, &[retry(run.job), enqueue(", dedupe_key => 'k'")]).await;
    results.sort_unstable();
    assert_eq!(results, ["duplicate", "queued"]);
});

race!(a_freed_dedupe_key_is_taken_or_still_held, |track, round| {
    let run = track.running(", dedupe_key => 'k'").await;
    let results = track.race(round, &[run.settle(SUCCESS), enqueue(", dedupe_key => 'k'")]).await;
    assert!(matches!([&*results[0], &*results[1]], ["1", "queued" | "duplicate"]), "{results:?}");
});

race!(two_retries_queue_a_job_once, |track, round| {
    let run = track.running("").await;
    track.ask(&run.settle(FAILURE)).await;
    let mut results = track.race(round, &[retry(run.job), retry(run.job)]).await;
    results.sort_unstable();
    assert_eq!(results, ["not_finished", "queued"]);
});

race!(a_job_enqueued_behind_one_that_ends_is_not_left_behind, |track, round| {
    let run = track.running("").await;
    let behind = enqueue(&format!(", depends_on => array['{}'::uuid]", run.job));
    let results = track.race(round, &[run.settle(SUCCESS), behind]).await;
    assert!(matches!(&*results[1], "queued" | "blocked"), "{results:?}");
    track.unblock().await;
    assert_eq!(track.ask("select count(*)::text from windlass.queued").await, "1");
});

race!(two_needs_that_end_at_once_start_the_job_behind_them, |track, round| {
    let runs = [track.running("").await, track.running("").await];
    let [one, two] = runs.map(|run| run.job);
    let job = track.enqueue(&format!(", depends_on => array['{one}', '{two}']::uuid[]")).await;
    track.race(round, &runs.map(|run| run.settle(SUCCESS))).await;
    assert_eq!(track.state(job).await, "queued");
});

race!(a_need_that_fails_beside_one_that_succeeds_cancels_the_job_behind_them, |track, round| {
    let runs = [track.running("").await, track.running("").await];
    let [one, two] = runs.map(|run| run.job);
    let job = track.enqueue(&format!(", depends_on => array['{one}', '{two}']::uuid[]")).await;
    track.race(round, &[runs[0].settle(SUCCESS), runs[1].settle(FAILURE)]).await;
    assert_eq!(track.state(job).await, "canceled");
});

race!(the_next_of_an_ordering_key_waits_for_the_first_though_the_one_between_is_canceled, |track, round| {
    let ordered = ", ordering_key => 'k'";
    let first = track.running(ordered).await;
    let between = track.enqueue(ordered).await;
    let results = track.race(round, &[cancel(between), enqueue(ordered)]).await;
    assert_eq!(results, ["canceled", "blocked"]);
    track.unblock().await;
    assert_eq!(track.ask("select count(*)::text from windlass.blocked").await, "1");
    track.ask(&first.settle(SUCCESS)).await;
    track.unblock().await;
    assert_eq!(track.ask("select count(*)::text from windlass.queued").await, "1");
});

race!(a_retried_job_and_the_next_of_its_ordering_key_run_one_after_the_other, |track, round| {
    let ordered = ", ordering_key => 'k', if_unmet => 'run'";
    let first = track.running(ordered).await;
    track.ask(&first.settle(FAILURE)).await;
    let mut results = track.race(round, &[retry(first.job), enqueue(ordered)]).await;
    results.sort_unstable();
    assert_eq!(results, ["blocked", "queued"]);
    let next = track.start(1).await[0];
    track.ask(&next.settle(SUCCESS)).await;
    track.start(1).await;
});

race!(a_purge_leaves_nothing_of_a_job_that_is_being_settled, |track, round| {
    let run = track.running("").await;
    let results = track.race(round, &[run.settle(RETRY), purge(run.job)]).await;
    assert_eq!(results[1], "1");
});

race!(a_purge_leaves_nothing_of_a_job_that_is_being_promoted, |track, round| {
    let job = track.enqueue(LATER).await;
    track.ask("update windlass.deferred set due_at = now() - interval '1 s' returning ''").await;
    let results = track.race(round, &[PROMOTE.to_owned(), purge(job)]).await;
    assert_eq!(results[1], "1");
});

race!(a_purge_leaves_nothing_of_a_job_that_is_being_retried, |track, round| {
    let run = track.running(", dedupe_key => 'k'").await;
    track.ask(&run.settle(FAILURE)).await;
    let results = track.race(round, &[retry(run.job), purge(run.job)]).await;
    assert_eq!(results[1], "1");
});

race!(a_purge_leaves_nothing_of_a_job_that_is_being_canceled, |track, round| {
    let job = track.enqueue(", deadline => now() + interval '1 h'").await;
    let results = track.race(round, &[cancel(job), purge(job)]).await;
    assert_eq!(results[1], "1");
});

race!(a_late_job_is_ended_once_by_a_claim_or_the_keeper, |track, round| {
    let job = track.enqueue(", deadline => now() - interval '1 s'").await;
    let results = track.race(round, &[EXPIRE.to_owned(), claim(&track, 1)]).await;
    assert_eq!([&*results[1], &*track.state(job).await], ["0", "failed"]);
});

race!(a_job_expires_though_it_is_being_promoted, |track, round| {
    let job = track.enqueue(&format!("{LATER}, deadline => now() - interval '1 s'")).await;
    track.ask("update windlass.deferred set due_at = now() - interval '1 s' returning ''").await;
    track.race(round, &[EXPIRE.to_owned(), PROMOTE.to_owned()]).await;
    track.ask(EXPIRE).await; // a locked one is skipped until the next round
    assert_eq!(track.state(job).await, "failed");
});

race!(counters_are_exact_while_they_are_folded, |track, round| {
    let run = track.running("").await;
    track.race(round, &[FOLD.to_owned(), run.settle(RETRY), enqueue(""), FOLD.to_owned()]).await;
});

race!(batches_that_overlap_do_not_deadlock, |track, round| {
    for _ in 0..8 {
        track.enqueue("").await;
    }
    let mut runs = track.start(8).await;
    runs.sort_unstable_by_key(|run| run.job);
    let all: Vec<Uuid> = runs.iter().map(|run| run.job).collect();
    let purge = format!(
        "select windlass.purge('{DEFAULT_TENANT}', '{{{}}}')::text",
        all.iter().rev().map(Uuid::to_string).collect::<Vec<_>>().join(",")
    );
    let acts =
        [settle_all(&runs[..6], SUCCESS), settle_all(&runs[2..], RETRY), settle_all(&runs, RELEASE), purge];
    let results = track.race(round, &acts).await;
    assert_eq!(results[3], "8");
});
