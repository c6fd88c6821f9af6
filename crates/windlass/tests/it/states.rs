//! The state machine as a contract: every state × every operation on a real database, compared with the table in the code; and
//! the table in the documentation compared with the same.

use std::collections::HashSet;

use serde_json::json;
use uuid::Uuid;
use windlass::DEFAULT_TENANT;
use windlass::internals::state::{Move, MovedBy, TRANSITIONS};
use windlass::job::{AttemptOutcome, Fence, State};
use windlass::keeper::{Duty, Keeper};
use windlass_testing::TestQueue;

use crate::support::{Hand, assert_counts_are_exact, ending, everything, keeper, register, status};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    EnqueueDuplicate,
    Claim,
    Succeed,
    FailRetryably,
    FailForGood,
    SpendTheBudget,
    TimeOut,
    Snooze,
    Release,
    Acknowledge,
    Promote,
    DependencySucceeds,
    DependencySucceedsEarly,
    DependencyFails,
    Reap,
    ReapPoison,
    ReapWithoutRetry,
    ReapCanceled,
    Cancel,
    Retry,
    RetryBehindOthers,
    Expire,
    Heartbeat,
    Progress,
    Purge,
}

use Operation::{
    Acknowledge, Cancel, Claim, DependencyFails, DependencySucceeds, DependencySucceedsEarly,
    EnqueueDuplicate, Expire, FailForGood, FailRetryably, Heartbeat, Progress, Promote, Purge, Reap,
    ReapCanceled, ReapPoison, ReapWithoutRetry, Release, Retry, RetryBehindOthers, Snooze, SpendTheBudget,
    Succeed, TimeOut,
};

const OPERATIONS: [Operation; 25] = [
    EnqueueDuplicate,
    Claim,
    Succeed,
    FailRetryably,
    FailForGood,
    SpendTheBudget,
    TimeOut,
    Snooze,
    Release,
    Acknowledge,
    Promote,
    DependencySucceeds,
    DependencySucceedsEarly,
    DependencyFails,
    Reap,
    ReapPoison,
    ReapWithoutRetry,
    ReapCanceled,
    Cancel,
    Retry,
    RetryBehindOthers,
    Expire,
    Heartbeat,
    Progress,
    Purge,
];

/// The state to which the operation moves a job from this state, and as which caller; none if it must not change the job.
fn moves(operation: Operation, from: State) -> Option<(State, MovedBy)> {
    let (starts, to, by): (&[State], State, MovedBy) = match operation {
        EnqueueDuplicate | Heartbeat | Progress | Purge => return None,
        Claim => (&[State::Queued], State::Running, MovedBy::Claim),
        Succeed => (&[State::Running], State::Succeeded, MovedBy::Worker),
        FailRetryably | TimeOut | Snooze => (&[State::Running], State::Scheduled, MovedBy::Worker),
        FailForGood => (&[State::Running], State::Failed, MovedBy::Worker),
        SpendTheBudget => (&[State::Running], State::DeadLetter, MovedBy::Worker),
        Release => (&[State::Running], State::Queued, MovedBy::Worker),
        Acknowledge => (&[State::Running], State::Canceled, MovedBy::Worker),
        Promote => (&[State::Scheduled], State::Queued, MovedBy::Promoter),
        DependencySucceeds => (&[State::Blocked], State::Queued, MovedBy::Dependency),
        DependencySucceedsEarly => (&[State::Blocked], State::Scheduled, MovedBy::Dependency),
        DependencyFails => (&[State::Blocked], State::Canceled, MovedBy::Dependency),
        Reap => (&[State::Running], State::Scheduled, MovedBy::Reaper),
        ReapPoison => (&[State::Running], State::DeadLetter, MovedBy::Reaper),
        ReapWithoutRetry => (&[State::Running], State::Failed, MovedBy::Reaper),
        ReapCanceled => (&[State::Running], State::Canceled, MovedBy::Reaper),
        Cancel => (&[State::Scheduled, State::Queued, State::Blocked], State::Canceled, MovedBy::Cancel),
        Expire => (&[State::Scheduled, State::Queued, State::Blocked], State::Failed, MovedBy::Expiry),
        Retry => (&TERMINAL, State::Queued, MovedBy::Operator),
        RetryBehindOthers => (&TERMINAL, State::Blocked, MovedBy::Operator),
    };
    starts.contains(&from).then_some((to, by))
}

const TERMINAL: [State; 4] = [State::Succeeded, State::Failed, State::DeadLetter, State::Canceled];

/// One job in the requested state, and its dependency if it is blocked.
struct Subject {
    id: Uuid,
    /// The fence of its last claim, or an invented one.
    fence: Fence,
    needs: Option<Uuid>,
}

async fn subject(hand: &Hand, state: State) -> Subject {
    let mut fence = Fence { tenant: DEFAULT_TENANT, job: Uuid::nil(), attempt: 1, token: Uuid::new_v4() };
    let mut needs = None;
    let new = "'held', dedupe_key => 'k', ordering_key => 'o'";
    let id = match state {
        State::Scheduled => hand.enqueue(&format!("{new}, delay => '1 hour'")).await,
        State::Blocked => {
            let needed = hand.enqueue("'held', delay => '1 hour'").await;
            needs = Some(needed);
            hand.enqueue(&format!("{new}, depends_on => array['{needed}'::uuid], if_unmet => 'cancel'")).await
        }
        State::Queued
        | State::Running
        | State::Succeeded
        | State::Failed
        | State::DeadLetter
        | State::Canceled => hand.enqueue(new).await,
    };
    fence.job = id;
    if matches!(
        state,
        State::Running | State::Succeeded | State::Failed | State::DeadLetter | State::Canceled
    ) {
        fence = hand.claim_one().await;
    }
    let settled = match state {
        State::Succeeded => hand.settle(&fence, None).await,
        State::Failed => hand.settle(&fence, Some(ending::failed())).await,
        State::DeadLetter => hand.settle(&fence, Some(ending::dead_letter())).await,
        State::Canceled => hand.cancel(id).await == "requested" && hand.settle(&fence, None).await,
        State::Scheduled | State::Blocked | State::Queued | State::Running => true,
    };
    assert!(settled);
    Subject { id, fence, needs }
}

async fn apply(hand: &Hand, keeper: &Keeper, subject: &Subject, operation: Operation) {
    let id = subject.id;
    let on_job = async |statement: &str| hand.client.execute(statement, &[&id]).await.unwrap();
    let request =
        "update windlass.live set cancel_requested_at[array_position(ids, $1)] = now() where $1 = any (ids)";
    let settle = async |detail| {
        hand.settle(&subject.fence, detail).await;
    };
    match operation {
        EnqueueDuplicate => {
            let again = hand.enqueue("'held', dedupe_key => 'k', delay => '1 hour'").await;
            let is_terminal = status(&hand.client, id).await.parse::<State>().unwrap().is_terminal();
            assert_eq!(again != id, is_terminal, "the key is held until the end");
        }
        Claim => {
            hand.claim_all().await;
        }
        Succeed => settle(None).await,
        FailRetryably => settle(Some(ending::retry())).await,
        FailForGood => settle(Some(ending::failed())).await,
        SpendTheBudget => settle(Some(ending::dead_letter())).await,
        TimeOut => settle(Some(ending::timeout())).await,
        Snooze => settle(Some(ending::snooze())).await,
        Release => settle(Some(ending::release())).await,
        Acknowledge => {
            on_job(request).await;
            settle(None).await;
        }
        Promote => {
            on_job("update windlass.deferred set due_at = now() where job_id = $1").await;
            keeper.run_once(Duty::Promote).await.unwrap();
        }
        DependencySucceeds => end_need(hand, subject, None).await,
        DependencySucceedsEarly => {
            on_job("update windlass.blocked set scheduled_for = now() + interval '1 hour' where job_id = $1")
                .await;
            end_need(hand, subject, None).await;
        }
        DependencyFails => end_need(hand, subject, Some(ending::failed())).await,
        Reap => reap(hand, keeper).await,
        ReapPoison => {
            on_job("update windlass.live set lost = 2 where $1 = any (ids)").await;
            reap(hand, keeper).await;
        }
        ReapWithoutRetry => {
            hand.define(json!({"key": "held", "on_lost": "fail"})).await;
            reap(hand, keeper).await;
            hand.define(json!({"key": "held", "on_lost": "retry"})).await;
        }
        ReapCanceled => {
            on_job(request).await;
            reap(hand, keeper).await;
        }
        Cancel => {
            hand.cancel(id).await;
        }
        Retry => {
            hand.retry(id).await;
        }
        RetryBehindOthers => {
            hand.enqueue("'held', ordering_key => 'o', if_unmet => 'run'").await;
            hand.retry(id).await;
        }
        Expire => {
            let due = "insert into windlass.expiry values ('00000000-0000-7000-8000-000000000001', $1, now(), false)";
            on_job(due).await;
            keeper.run_once(Duty::Expire).await.unwrap();
        }
        Heartbeat => assert!(hand.heartbeat().await),
        Progress => {
            hand.progress(&subject.fence).await;
        }
        Purge => {
            hand.client
                .execute("select windlass.purge($1, array[$2::uuid])", &[&DEFAULT_TENANT, &id])
                .await
                .unwrap();
        }
    }
}

async fn end_need(hand: &Hand, subject: &Subject, detail: Option<serde_json::Value>) {
    let Some(needed) = subject.needs else { return };
    let due = "update windlass.deferred set due_at = now() where job_id = $1";
    hand.client.execute(due, &[&needed]).await.unwrap();
    hand.client.query("select windlass.promote(100)", &[]).await.unwrap();
    let fence = hand.claim_one().await;
    assert_eq!(fence.job, needed);
    assert!(hand.settle(&fence, detail).await);
}

async fn reap(hand: &Hand, keeper: &Keeper) {
    hand.miss_heartbeats().await;
    keeper.run_once(Duty::Reap).await.unwrap();
}

/// Invariants 1, 3, 4 and 5: every state × every operation.
#[tokio::test(flavor = "multi_thread")]
async fn every_operation_follows_the_transition_table() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let keeper = keeper(&queue);
    let mut seen: HashSet<Move> = HashSet::new();
    // One session for all of them: a new one compiles every function again.
    let mut hand = Hand::new(queue.client().await).await;
    for from in State::ALL {
        for operation in OPERATIONS {
            hand.worker = register(&hand.client).await;
            hand.define(json!({"key": "held"})).await;
            let subject = subject(&hand, from).await;
            assert_eq!(status(&client, subject.id).await, from.as_str());
            let attempt = last_attempt(&hand, subject.id).await;
            let is_stale = is_settlement(operation) && from != State::Running;
            let before = if is_stale { everything(&client).await } else { String::new() };
            apply(&hand, &keeper, &subject, operation).await;
            let after = status(&client, subject.id).await;
            let cell = format!("{operation:?} on a job that is {from}");
            match moves(operation, from) {
                Some((to, by)) => {
                    assert_eq!(after, to.as_str(), "{cell}");
                    let transition = Move { from: Some(from), to, by };
                    assert!(TRANSITIONS.contains(&transition), "{cell}: {transition:?} is not in the table");
                    seen.insert(transition);
                }
                None if operation == Purge => assert_eq!(after, "missing", "{cell}"),
                None => assert_eq!(after, from.as_str(), "{cell}"),
            }
            if is_stale {
                assert_eq!(everything(&client).await, before, "{cell}: a stale write changed a row");
            }
            if operation != Purge {
                let claimed = i32::from(operation == Claim && from == State::Queued);
                assert_eq!(last_attempt(&hand, subject.id).await, attempt + claimed, "{cell}");
            }
            assert_counts_are_exact(&client).await;
            clear(&hand).await;
        }
    }
    for to in [State::Scheduled, State::Queued, State::Blocked] {
        // `subject` created jobs in these states and the loop has checked each.
        seen.insert(Move { from: None, to, by: MovedBy::Enqueue });
    }
    let missed: Vec<_> = TRANSITIONS.iter().filter(|row| !seen.contains(row)).collect();
    assert!(missed.is_empty(), "no operation made these transitions: {missed:?}");
}

/// Whether it writes with a fence.
fn is_settlement(operation: Operation) -> bool {
    let ends = [Succeed, FailRetryably, FailForGood, SpendTheBudget, TimeOut, Snooze, Release, Acknowledge];
    operation == Progress || ends.contains(&operation)
}

async fn last_attempt(hand: &Hand, id: Uuid) -> i32 {
    let attempt = "select attempt_count from windlass.jobs where id = $1";
    hand.client.query_one(attempt, &[&id]).await.unwrap().get(0)
}

async fn clear(hand: &Hand) {
    let all = "select windlass.purge(tenant_id, array_agg(id)) from windlass.job group by tenant_id";
    hand.client.query(all, &[]).await.unwrap();
    hand.client.batch_execute("delete from windlass.ordering; delete from windlass.expiry").await.unwrap();
}

/// Invariant 2: the shape of a single row is a constraint, so no code path can violate it.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_a_wrong_shape_cannot_be_written() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    hand.enqueue("'held'").await;
    let done = hand.enqueue("'held'").await;
    hand.cancel(done).await;
    hand.claim_one().await;
    hand.enqueue("'held'").await;
    for column in ["token", "worker", "claimed_at"] {
        let forget = format!("update windlass.live set {column} = null");
        let error = hand.client.execute(&forget, &[]).await.unwrap_err();
        assert_eq!(error.as_db_error().unwrap().column(), Some(column), "{error}");
    }
    let wrong = [
        ("update windlass.history set outcome = 1", "history_attempt_has_outcome"),
        ("update windlass.history set job_status = 5", "history_status_is_terminal"),
        (
            "update windlass.history set attempt = 1, outcome = 2, artifact = '1'",
            "history_artifact_needs_success",
        ),
        ("update windlass.job set source = 9", "job_source_known"),
        ("update windlass.line set ids = '{}'", "line_ids"),
        ("update windlass.line set ids = array[ids, ids]", "line_ids"),
        ("update windlass.line set ids = ids || null::uuid", "line_ids"),
        (
            "update windlass.line set ids = array(select gen_random_uuid() from generate_series(1, 65))",
            "line_ids",
        ),
    ];
    for (statement, constraint) in wrong {
        let error = hand.client.execute(statement, &[]).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!(error.constraint(), Some(constraint), "{statement}: {error}");
    }
}

/// And the planner replaces a call with a constant by its value, so that no statement pays for the names.
#[tokio::test]
async fn sql_has_the_codes_of_the_library() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    for state in State::ALL {
        let query = "select windlass.state_code($1), windlass.state_name($2), windlass.has_ended($2)";
        let row = client.query_one(query, &[&state.as_str(), &state.code()]).await.unwrap();
        assert_eq!((row.get(0), row.get(1), row.get(2)), (state.code(), state.as_str(), state.is_terminal()));
    }
    for outcome in AttemptOutcome::ALL {
        let query = "select windlass.outcome_code($1), windlass.outcome_name($2)";
        let row = client.query_one(query, &[&outcome.as_str(), &outcome.code()]).await.unwrap();
        assert_eq!((row.get(0), row.get(1)), (outcome.code(), outcome.as_str()));
    }
    let explain = "explain (verbose, costs off) select windlass.state_code('queued') from windlass.history h
        where windlass.has_ended(h.job_status) and h.outcome = windlass.outcome_code('lost')";
    let plan = client.query(explain, &[]).await.unwrap();
    let called = |line: &str| line.contains("_code(") || line.contains("has_ended(");
    assert!(!plan.iter().any(|row| called(row.get(0))), "{plan:?}");
}

/// The documentation's table equals the code's.
#[test]
fn the_documented_transitions_are_those_of_the_code() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/job-lifecycle.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, table) = page.split_once("<!-- checked: transitions -->").unwrap();
    let rows = table.trim_start().lines().take_while(|line| line.starts_with('|')).skip(2);
    let documented: Vec<String> =
        rows.map(|row| row.split('|').skip(1).take(3).map(str::trim).collect::<Vec<_>>().join(" ")).collect();
    let mut in_code: Vec<String> = TRANSITIONS
        .iter()
        .map(|row| {
            let from = row.from.map_or("-", State::as_str);
            format!("{from} {} {}", row.to, format!("{:?}", row.by).to_lowercase())
        })
        .collect();
    let mut sorted = documented.clone();
    sorted.sort();
    in_code.sort();
    assert_eq!(sorted, in_code);
}
