//! The rule that decides what follows an attempt exists twice: in Rust, for all workers of ours, and in SQL, for workers that only speak
//! SQL and for `windlass.tick`. Here both decide the same cases (decision 0024).

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde_json::{Value, json};
use std::time::Duration;
use windlass::internals::settle::{
    Budget, Next, OnLost, OnTimeout, Outcome, Retry, RetryPolicy, Settlement, settle,
};
use windlass::internals::state::AttemptOutcome;
use windlass::job::Backoff;
use windlass_testing::TestQueue;

#[derive(Debug, Clone)]
struct Case {
    budget: Budget,
    policy: RetryPolicy,
    /// As it is stored with the definition.
    backoff: Value,
    outcome: Outcome,
    random: f64,
}

const CASES: usize = 4000;

/// Small numbers, so that limits are reached often, and the largest ones.
fn counter() -> impl Strategy<Value = i16> {
    prop_oneof![8 => 0..6_i16, 2 => 0..1100_i16, 1 => Just(32_000_i16)]
}

/// What `define` accepts.
fn backoff() -> impl Strategy<Value = Value> {
    let base = prop_oneof![Just(0.0), Just(1e-12), 0.0..2.0_f64, 0.0..31_622_400.0_f64];
    let above = prop_oneof![Just(0.0), 0.0..5.0_f64, 0.0..31_622_400.0_f64];
    let factor = prop_oneof![Just(1.0), Just(2.0), 1.0..4.0_f64, 1.0..=1000.0_f64];
    let jitter = prop_oneof![Just(0.0), Just(1e-9), 0.0..=1.0_f64];
    let kind = prop_oneof![Just("exponential"), Just("linear"), Just("fixed")];
    let full = (kind, base, above, factor, jitter).prop_map(|(kind, base, above, factor, jitter)| {
        let cap = (base + above).min(31_622_400.0);
        json!({"kind": kind, "base_seconds": base, "cap_seconds": cap, "factor": factor, "jitter": jitter})
    });
    prop_oneof![
        1 => Just(json!({})),
        1 => Just(json!({"kind": "linear", "base_seconds": 5})),
        1 => Just(json!({"jitter": 0})),
        10 => full,
    ]
}

fn milliseconds() -> impl Strategy<Value = Duration> {
    let most = 400 * 86_400_000_u64;
    prop_oneof![Just(0), 0..10_000_u64, 0..1_000_000_u64, 0..most].prop_map(Duration::from_millis)
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Succeeded),
        Just(Outcome::Failed { retry: Retry::Permanent }),
        Just(Outcome::Failed { retry: Retry::ByPolicy }),
        Just(Outcome::Failed { retry: Retry::ByPolicy }),
        milliseconds().prop_map(|delay| Outcome::Failed { retry: Retry::After(delay) }),
        Just(Outcome::TimedOut),
        Just(Outcome::Canceled),
        milliseconds().prop_map(|delay| Outcome::Snoozed { delay }),
        Just(Outcome::Released),
        Just(Outcome::Lost),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    let limits = (1..=1000_i16, 1..=1000_i16, 0..=32_000_i32);
    let small = (1..6_i16, 1..6_i16, 0..6_i32);
    let limits = prop_oneof![small, limits];
    let counters = (counter(), counter(), counter());
    let random = prop_oneof![Just(0.0), Just(0.5), 0.0..1.0_f64, Just(7.0)];
    let remaining = proptest::option::of(milliseconds());
    let policies = (backoff(), any::<bool>(), any::<bool>(), prop::bool::weighted(0.2));
    (counters, limits, policies, remaining, outcome(), random).prop_map(
        |(
            counters,
            limits,
            (backoff, fails_on_timeout, fails_on_lost, cancel_requested),
            remaining,
            outcome,
            random,
        )| {
            let budget = Budget {
                attempt: 1,
                failures: counters.0,
                lost: counters.1,
                snoozes: i32::from(counters.2),
                max_attempts: limits.0,
                max_lost: limits.1,
                max_snoozes: limits.2,
                cancel_requested,
                remaining,
            };
            let policy = RetryPolicy {
                backoff: serde_json::from_value::<Backoff>(backoff.clone()).unwrap(),
                on_timeout: if fails_on_timeout { OnTimeout::Fail } else { OnTimeout::Retry },
                on_lost: if fails_on_lost { OnLost::Fail } else { OnLost::Retry },
            };
            Case { budget, policy, backoff, outcome, random }
        },
    )
}

impl Case {
    /// The arguments of the SQL function.
    fn arguments(&self) -> Value {
        let (ended, again, delay) = match self.outcome {
            Outcome::Succeeded => ("succeeded", None, None),
            Outcome::Failed { retry: Retry::Permanent } => ("failed", Some("permanent"), None),
            Outcome::Failed { retry: Retry::ByPolicy } => ("failed", Some("policy"), None),
            Outcome::Failed { retry: Retry::After(delay) } => ("failed", Some("after"), Some(delay)),
            Outcome::TimedOut => ("timeout", None, None),
            Outcome::Canceled => ("canceled", None, None),
            Outcome::Snoozed { delay } => ("snoozed", None, Some(delay)),
            Outcome::Released => ("released", None, None),
            Outcome::Lost => ("lost", None, None),
        };
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap();
        let budget = &self.budget;
        json!({"ended": ended, "again": again, "delay_ms": delay.map(ms), "failures": budget.failures, "lost": budget.lost,
            "snoozes": budget.snoozes, "max_attempts": budget.max_attempts, "max_lost": budget.max_lost,
            "max_snoozes": budget.max_snoozes, "backoff": self.backoff, "on_timeout": self.policy.on_timeout,
            "on_lost": self.policy.on_lost, "is_canceled": budget.cancel_requested, "remaining_ms": budget.remaining.map(ms),
            "random": self.random})
    }

    /// The decision in Rust, in the form of the SQL function; the delay is separate.
    fn decided(&self) -> (Value, Option<f64>) {
        let Settlement { attempt_outcome, next, reason, failures, lost, snoozes } =
            settle(&self.budget, &self.policy, self.outcome, self.random);
        let delay = match next {
            Next::Scheduled { after } => Some(after.as_secs_f64() * 1000.0),
            _ => None,
        };
        let mut fields = json!({"outcome": AttemptOutcome::code(attempt_outcome), "next": next.state().code(),
            "failures": failures, "lost": lost, "snoozes": i16::try_from(snoozes).unwrap_or(i16::MAX)});
        if let Some(reason) = reason {
            fields["reason"] = reason.as_str().into();
        }
        (fields, delay)
    }
}

#[tokio::test]
async fn the_rule_in_sql_is_the_rule_in_rust() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let mut runner = TestRunner::new(Config { rng_seed: RngSeed::Fixed(24), ..Config::default() });
    let cases: Vec<Case> = (0..CASES).map(|_| case().new_tree(&mut runner).unwrap().current()).collect();
    let arguments = Value::Array(cases.iter().map(Case::arguments).collect());
    let query = "select jsonb_agg(windlass.settlement(ended, again, delay_ms, failures, lost, snoozes, max_attempts, max_lost,
                   max_snoozes, backoff, on_timeout, on_lost, is_canceled, remaining_ms, random) order by ord)
        from rows from (jsonb_to_recordset($1) as (ended text, again text, delay_ms numeric, failures integer, lost integer,
          snoozes integer, max_attempts integer, max_lost integer, max_snoozes integer, backoff jsonb, on_timeout text, on_lost text,
          is_canceled boolean, remaining_ms bigint, random double precision)) with ordinality
          r (ended, again, delay_ms, failures, lost, snoozes, max_attempts, max_lost, max_snoozes, backoff, on_timeout, on_lost,
             is_canceled, remaining_ms, random, ord)";
    let answers: Value = client.query_one(query, &[&arguments]).await.unwrap().get(0);
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), cases.len());
    let mut decided = std::collections::BTreeSet::new();
    for (case, answer) in cases.iter().zip(answers) {
        let (expected, delay) = case.decided();
        let mut fields = answer.clone();
        let found = fields.as_object_mut().unwrap().remove("delay_ms");
        assert_eq!(fields, expected, "{case:?}");
        let found = found.map(|ms| ms.as_f64().unwrap());
        match (found, delay) {
            // The number in SQL is in whole milliseconds.
            (Some(found), Some(delay)) => assert!((found - delay).abs() <= 1.0, "{found} {delay} {case:?}"),
            (found, delay) => assert_eq!(found, delay, "{case:?}"),
        }
        decided.insert(format!("{} {}", expected["next"], expected["reason"]));
    }
    assert!(decided.len() >= 12, "every end is among them: {decided:?}");
}

/// An old row may have a backoff that is not valid. Its jobs end by the default.
#[tokio::test]
async fn an_invalid_backoff_is_replaced_by_the_default() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    for backoff in ["null", "[]", r#"{"kind": "none"}"#, r#"{"base_seconds": "a"}"#, r#"{"unknown": 1}"#] {
        let query = "select windlass.backoff_ms($1, 1, 0.5)::double precision";
        let value: Value = serde_json::from_str(backoff).unwrap();
        let ms: f64 = client.query_one(query, &[&value]).await.unwrap().get(0);
        assert_eq!(ms, 60_000.0, "{backoff}");
        let stored = serde_json::from_value::<Backoff>(value).unwrap_or_default();
        assert_eq!(stored.delay(1, 0.5), Duration::from_secs(60));
    }
}
