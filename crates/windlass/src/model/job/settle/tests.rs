use proptest::prelude::*;

use super::super::state::allowed;
use super::*;

const SECOND: Duration = Duration::from_secs(1);
const BY_POLICY: Outcome = Outcome::Failed { retry: Retry::ByPolicy };
const PERMANENT: Outcome = Outcome::Failed { retry: Retry::Permanent };

fn fresh() -> Budget {
    Budget {
        attempt: 1,
        failures: 0,
        lost: 0,
        snoozes: 0,
        max_attempts: 3,
        max_lost: 3,
        max_snoozes: 2,
        cancel_requested: false,
        remaining: None,
    }
}

fn settled(budget: &Budget, outcome: Outcome) -> Settlement {
    settle(budget, &RetryPolicy::default(), outcome, 0.5)
}

fn end(settlement: Settlement) -> (Next, Option<EndReason>) {
    (settlement.next, settlement.reason)
}

#[test]
fn a_success_ends_the_job_and_is_not_a_failure() {
    let settlement = settled(&fresh(), Outcome::Succeeded);
    assert_eq!(end(settlement), (Next::Succeeded, None));
    assert_eq!((settlement.failures, settlement.lost, settlement.snoozes), (0, 0, 0));
}

#[test]
fn a_failure_is_retried_by_policy_until_out_of_attempts() {
    let second = Budget { failures: 1, ..fresh() };
    let last = Budget { failures: 2, ..fresh() };
    let after = |seconds| Next::Scheduled { after: Duration::from_secs(seconds) };
    assert_eq!(end(settled(&fresh(), BY_POLICY)), (after(30), None));
    assert_eq!(end(settled(&second, BY_POLICY)), (after(60), None));
    assert_eq!(end(settled(&last, BY_POLICY)), (Next::DeadLetter, Some(EndReason::AttemptsExhausted)));
    assert_eq!(settled(&last, BY_POLICY).failures, 3);
    assert_eq!(
        end(settled(&last, Outcome::TimedOut)),
        (Next::DeadLetter, Some(EndReason::AttemptsExhausted))
    );
}

#[test]
fn a_handler_may_set_a_bounded_delay() {
    let wait = |delay| settled(&fresh(), Outcome::Failed { retry: Retry::After(delay) }).next;
    assert_eq!(wait(SECOND), Next::Scheduled { after: SECOND });
    assert_eq!(wait(Duration::MAX), Next::Scheduled { after: MAX_RETRY_DELAY });
}

#[test]
fn a_permanent_failure_fails_at_once() {
    assert_eq!(end(settled(&fresh(), PERMANENT)), (Next::Failed, Some(EndReason::Permanent)));
}

#[test]
fn a_timeout_is_retried_or_fails_by_definition() {
    let settlement = settled(&fresh(), Outcome::TimedOut);
    assert_eq!(settlement.attempt_outcome, AttemptOutcome::Timeout);
    assert_eq!(settlement.next, Next::Scheduled { after: Duration::from_secs(30) });
    let fail = RetryPolicy { on_timeout: OnTimeout::Fail, ..RetryPolicy::default() };
    let settlement = settle(&fresh(), &fail, Outcome::TimedOut, 0.5);
    assert_eq!(end(settlement), (Next::Failed, Some(EndReason::Timeout)));
}

#[test]
fn a_lost_attempt_counts_for_both_limits_and_retries_soon() {
    let settlement = settled(&fresh(), Outcome::Lost);
    assert_eq!((settlement.failures, settlement.lost), (1, 1));
    assert_eq!(settlement.next, Next::Scheduled { after: Duration::from_millis(2500) });
    let fail = RetryPolicy { on_lost: OnLost::Fail, ..RetryPolicy::default() };
    let late = Budget { remaining: Some(Duration::ZERO), ..fresh() };
    for budget in [fresh(), late] {
        assert_eq!(end(settle(&budget, &fail, Outcome::Lost, 0.5)), (Next::Failed, Some(EndReason::Lost)));
    }
}

#[test]
fn a_job_that_kills_its_workers_is_poison_once_the_limit_is_reached() {
    let deadly = Budget { lost: 2, failures: 2, max_attempts: 10, ..fresh() };
    assert_eq!(end(settled(&deadly, Outcome::Lost)), (Next::DeadLetter, Some(EndReason::Poison)));
    let unlucky = Budget { lost: 0, failures: 2, ..fresh() };
    assert_eq!(end(settled(&unlucky, Outcome::Lost)), (Next::DeadLetter, Some(EndReason::AttemptsExhausted)));
}

#[test]
fn a_snooze_counts_only_for_its_own_limit_and_ends_there() {
    let snooze = Outcome::Snoozed { delay: SECOND };
    let settlement = settled(&fresh(), snooze);
    assert_eq!(end(settlement), (Next::Scheduled { after: SECOND }, None));
    assert_eq!((settlement.failures, settlement.lost, settlement.snoozes), (0, 0, 1));
    let spent = settled(&Budget { snoozes: 2, ..fresh() }, snooze);
    assert_eq!(end(spent), (Next::Failed, Some(EndReason::SnoozeBudget)));
    assert_eq!(spent.snoozes, 2);
}

#[test]
fn a_release_is_not_counted_as_a_failure() {
    let settlement = settled(&fresh(), Outcome::Released);
    assert_eq!(end(settlement), (Next::Queued, None));
    assert_eq!((settlement.failures, settlement.lost, settlement.snoozes), (0, 0, 0));
}

#[test]
fn a_job_that_cannot_start_before_its_deadline_ends() {
    let late = Budget { remaining: Some(SECOND), ..fresh() };
    let retry = |delay| Outcome::Failed { retry: Retry::After(delay) };
    let snooze = |delay| Outcome::Snoozed { delay };
    let just_before = Duration::from_millis(999);
    assert_eq!(settled(&late, retry(just_before)).next, Next::Scheduled { after: just_before });
    assert_eq!(end(settled(&late, retry(SECOND))), (Next::DeadLetter, Some(EndReason::DeadlinePassed)));
    assert_eq!(settled(&late, snooze(just_before)).next, Next::Scheduled { after: just_before });
    assert_eq!(end(settled(&late, snooze(SECOND))), (Next::Failed, Some(EndReason::DeadlinePassed)));
    let passed = Budget { remaining: Some(Duration::ZERO), ..fresh() };
    assert_eq!(end(settled(&passed, Outcome::Lost)), (Next::DeadLetter, Some(EndReason::DeadlinePassed)));
    assert_eq!(settled(&passed, Outcome::Succeeded).next, Next::Succeeded);
}

#[test]
fn a_success_after_a_cancel_request_is_recorded_as_canceled() {
    let canceled = Budget { cancel_requested: true, ..fresh() };
    let settlement = settled(&canceled, Outcome::Succeeded);
    assert_eq!(settlement.attempt_outcome, AttemptOutcome::Canceled);
    assert_eq!(end(settlement), (Next::Canceled, Some(EndReason::CancelRequested)));
    assert_eq!(settled(&canceled, Outcome::Lost).attempt_outcome, AttemptOutcome::Lost);
}

#[test]
fn reasons_are_stored_as_they_are_printed() {
    for reason in [
        EndReason::AttemptsExhausted,
        EndReason::Poison,
        EndReason::SnoozeBudget,
        EndReason::DeadlinePassed,
        EndReason::Permanent,
        EndReason::Timeout,
        EndReason::Lost,
        EndReason::CancelRequested,
    ] {
        assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
    }
}

/// The invariants of every settlement.
fn check(budget: &Budget, policy: &RetryPolicy, outcome: Outcome, random: f64) {
    let made = settle(budget, policy, outcome, random);
    let context = || format!("{budget:?} {policy:?} {outcome:?} {made:?}");
    assert!(allowed(Some(State::Running), made.next.state()), "{}", context());

    let willing = settle(&Budget { cancel_requested: false, ..*budget }, policy, outcome, random);
    if budget.cancel_requested {
        assert_eq!(made.next, Next::Canceled, "{}", context());
        assert_eq!(made, after_cancel(willing), "{}", context());
    }
    assert_eq!(after_cancel(after_cancel(made)), after_cancel(made), "{}", context());

    let charges = match outcome {
        Outcome::Failed { retry: _ } | Outcome::TimedOut => (1, 0),
        Outcome::Lost => (1, 1),
        Outcome::Succeeded | Outcome::Canceled | Outcome::Snoozed { delay: _ } | Outcome::Released => (0, 0),
    };
    assert_eq!(made.failures, budget.failures.saturating_add(charges.0), "{}", context());
    assert_eq!(made.lost, budget.lost.saturating_add(charges.1), "{}", context());
    assert!(made.snoozes <= budget.max_snoozes.max(budget.snoozes), "{}", context());
    if budget.failures < budget.max_attempts && budget.lost < budget.max_lost {
        assert!(made.failures <= budget.max_attempts && made.lost <= budget.max_lost, "{}", context());
    }

    match made.next {
        Next::Scheduled { after } => {
            assert!(after <= MAX_RETRY_DELAY, "{}", context());
            assert!(budget.remaining.is_none_or(|remaining| after < remaining), "{}", context());
            let charged = made.attempt_outcome != AttemptOutcome::Snoozed;
            assert!(!charged || made.failures < budget.max_attempts, "{}", context());
            assert_eq!(made.reason, None, "{}", context());
        }
        Next::Queued => assert_eq!(made.attempt_outcome, AttemptOutcome::Released, "{}", context()),
        Next::Succeeded => assert_eq!(made.attempt_outcome, AttemptOutcome::Succeeded, "{}", context()),
        Next::Failed | Next::DeadLetter | Next::Canceled => {
            assert!(made.reason.is_some(), "{}", context());
        }
    }
    if outcome == Outcome::Lost && !budget.cancel_requested && made.lost >= budget.max_lost {
        assert_eq!(end(made), (Next::DeadLetter, Some(EndReason::Poison)), "{}", context());
    }
}

const OUTCOMES: [Outcome; 9] = [
    Outcome::Succeeded,
    PERMANENT,
    BY_POLICY,
    Outcome::Failed { retry: Retry::After(SECOND) },
    Outcome::TimedOut,
    Outcome::Canceled,
    Outcome::Snoozed { delay: SECOND },
    Outcome::Released,
    Outcome::Lost,
];

#[test]
fn every_small_case_keeps_the_invariants() {
    let policies = [
        (OnTimeout::Retry, OnLost::Retry),
        (OnTimeout::Retry, OnLost::Fail),
        (OnTimeout::Fail, OnLost::Retry),
        (OnTimeout::Fail, OnLost::Fail),
    ]
    .map(|(on_timeout, on_lost)| RetryPolicy { backoff: Backoff::default(), on_timeout, on_lost });
    let remainings = [None, Some(Duration::ZERO), Some(SECOND), Some(100 * SECOND)];
    let counters = || (0..=2_i16).flat_map(|used| (0..=2_i16).map(move |most| (used, most)));
    for (failures, max_attempts) in counters() {
        for (lost, max_lost) in counters() {
            for (snoozes, max_snoozes) in counters() {
                for remaining in remainings {
                    for cancel_requested in [false, true] {
                        let budget = Budget {
                            attempt: 1,
                            failures,
                            lost,
                            snoozes: snoozes.into(),
                            max_attempts,
                            max_lost,
                            max_snoozes: max_snoozes.into(),
                            cancel_requested,
                            remaining,
                        };
                        for policy in &policies {
                            OUTCOMES.iter().for_each(|outcome| check(&budget, policy, *outcome, 0.5));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_job_that_always_fails_runs_exactly_max_attempts_times() {
    for outcome in [BY_POLICY, Outcome::TimedOut, Outcome::Lost] {
        let mut budget = Budget { max_attempts: 5, max_lost: 9, ..fresh() };
        let mut runs = 0;
        loop {
            runs += 1;
            let settlement = settled(&budget, outcome);
            (budget.failures, budget.lost) = (settlement.failures, settlement.lost);
            if settlement.next.state().is_terminal() {
                break;
            }
        }
        assert_eq!(runs, 5);
    }
}

fn any_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(Duration::ZERO), Just(Duration::MAX), (0..100_000_u64).prop_map(Duration::from_secs)]
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        prop::sample::select(&OUTCOMES[..]),
        any_duration().prop_map(|delay| Outcome::Snoozed { delay }),
        any_duration().prop_map(|delay| Outcome::Failed { retry: Retry::After(delay) }),
    ]
}

prop_compose! {
    fn any_budget()(
        (attempt, failures, lost, snoozes) in any::<(i32, i16, i16, i32)>(),
        (max_attempts, max_lost, max_snoozes) in any::<(i16, i16, i32)>(),
        cancel_requested in any::<bool>(),
        remaining in prop::option::of(any_duration()),
    ) -> Budget {
        Budget {
            attempt, failures, lost, snoozes, max_attempts, max_lost, max_snoozes, cancel_requested, remaining,
        }
    }
}

proptest! {
    #[test]
    fn any_case_keeps_the_invariants(
        budget in any_budget(),
        outcome in any_outcome(),
        timeouts_fail in any::<bool>(),
        losses_fail in any::<bool>(),
        random in any::<f64>(),
    ) {
        let policy = RetryPolicy {
            backoff: Backoff::default(),
            on_timeout: if timeouts_fail { OnTimeout::Fail } else { OnTimeout::Retry },
            on_lost: if losses_fail { OnLost::Fail } else { OnLost::Retry },
        };
        check(&budget, &policy, outcome, random);
    }
}
