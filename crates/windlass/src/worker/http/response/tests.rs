use std::time::Duration;

use uuid::Uuid;

use super::{CallFault, CallResponse, CallResult, read, read_batch};
use crate::attempt::run_result::RunResult;
use crate::model::job::settle::{Outcome, Retry};

const LEASE: Duration = Duration::from_secs(300);

fn response(status: u16, body: &str) -> CallResult {
    CallResult::Response(CallResponse {
        status,
        reason: "",
        retry_after: None,
        body: body.as_bytes().to_vec(),
    })
}

fn later(status: u16, seconds: u64) -> CallResult {
    let retry_after = Some(Duration::from_secs(seconds));
    CallResult::Response(CallResponse { status, reason: "", retry_after, body: Vec::new() })
}

fn one(response: &CallResult) -> RunResult {
    read(response, LEASE).0
}

#[test]
fn a_status_has_the_documented_meaning() {
    let permanent = Outcome::Failed { retry: Retry::Permanent };
    let by_policy = Outcome::Failed { retry: Retry::ByPolicy };
    for status in [200, 201, 204, 299] {
        assert_eq!(one(&response(status, "")).outcome, Outcome::Succeeded, "{status}");
    }
    for status in [400, 401, 403, 404, 409, 410, 422, 499, 304] {
        assert_eq!(one(&response(status, "no")).outcome, permanent, "{status}");
    }
    for status in [429, 500, 502, 503, 504, 599] {
        assert_eq!(one(&response(status, "busy")).outcome, by_policy, "{status}");
    }
    for status in [429, 503] {
        let snoozed = Outcome::Snoozed { delay: Duration::from_secs(7) };
        assert_eq!(one(&later(status, 7)).outcome, snoozed, "{status}");
    }
    let far = Outcome::Snoozed { delay: Duration::from_secs(86_400) };
    assert_eq!(one(&later(429, u64::MAX)).outcome, far, "a header cannot delay a job forever");
    assert_eq!(one(&later(500, 7)).outcome, by_policy);
    assert_eq!(one(&response(202, "")).done.hand_over, Some(LEASE));
    for fault in
        [CallFault::Late(LEASE), CallFault::Transport("x".to_owned()), CallFault::Refused("x".to_owned())]
    {
        assert_eq!(one(&CallResult::Fault(fault)).outcome, by_policy);
    }
    for fault in [CallFault::TooLarge(1), CallFault::Redirect("x".to_owned())] {
        assert_eq!(one(&CallResult::Fault(fault)).outcome, permanent);
    }
}

#[test]
fn the_body_is_the_result_unchanged() {
    let kept = |body: &str| one(&response(200, body)).done.result;
    assert_eq!(
        kept(r#"{"n": 1.10, "big": 12345678901234567890}"#).as_deref(),
        Some(r#"{"n": 1.10, "big": 12345678901234567890}"#)
    );
    assert_eq!(kept("[1, 2]").as_deref(), Some("[1, 2]"));
    assert_eq!(kept("null").as_deref(), Some("null"));
    assert_eq!(kept("<html>").as_deref(), Some(r#""<html>""#));
    assert_eq!(kept(" \n"), None);
}

#[test]
fn a_body_may_set_more_in_its_reserved_member() {
    let finish = one(&response(
        200,
        r#"{"tags": ["a"], "windlass": {"artifact": "s3://x", "next": [{"definition_key": "enrich"}]}}"#,
    ));
    assert_eq!(finish.outcome, Outcome::Succeeded);
    assert_eq!(finish.done.result.as_deref(), Some(r#"{"tags":["a"]}"#));
    assert_eq!((finish.done.artifact.as_deref(), finish.done.next.len()), (Some(r#""s3://x""#), 1));

    let (finish, progress) =
        read(&response(200, r#"{"windlass": {"snooze_seconds": 2.5, "progress": {"percent": 30}}}"#), LEASE);
    assert_eq!(finish.outcome, Outcome::Snoozed { delay: Duration::from_millis(2500) });
    assert_eq!(progress.and_then(|progress| progress.percent), Some(30.0));

    let failed = |member: &str| one(&response(200, &format!(r#"{{"windlass": {member}}}"#))).outcome;
    assert_eq!(failed(r#"{"error": "x"}"#), Outcome::Failed { retry: Retry::ByPolicy });
    assert_eq!(failed(r#"{"error": "x", "retryable": false}"#), Outcome::Failed { retry: Retry::Permanent });
    let after = Outcome::Failed { retry: Retry::After(Duration::from_secs(9)) };
    assert_eq!(failed(r#"{"error": "x", "retry_after_seconds": 9}"#), after);
    let accepted = one(&response(202, r#"{"windlass": {"lease_seconds": 20}}"#));
    assert_eq!(accepted.done.hand_over, Some(Duration::from_secs(20)));
}

#[test]
fn an_invalid_field_fails_the_attempt_and_is_named() {
    for (member, name) in [
        (r#"{"snoze_seconds": 1}"#, "snoze_seconds"),
        (r#"{"snooze_seconds": -1}"#, "snooze_seconds"),
        (r#"{"next": [{"payload": 1}]}"#, "definition_key"),
        ("7", "invalid type"),
    ] {
        let finish = one(&response(200, &format!(r#"{{"windlass": {member}}}"#)));
        assert_eq!(finish.outcome, Outcome::Failed { retry: Retry::ByPolicy });
        assert!(
            finish.error.as_deref().is_some_and(|error| error.contains(name)),
            "{member}: {:?}",
            finish.error
        );
    }
}

#[test]
fn a_batch_has_an_outcome_for_each_job() {
    let jobs = [Uuid::from_u128(1), Uuid::from_u128(2), Uuid::from_u128(3), Uuid::from_u128(4)];
    let body = format!(
        r#"{{"outcomes": [{{"id": "{}", "error": "no", "retryable": false}},
            {{"id": "{}", "result": {{"ok": 1}}}}, {{"id": "{}", "accepted": true}}]}}"#,
        jobs[1], jobs[0], jobs[3]
    );
    let read: Vec<RunResult> =
        read_batch(&response(200, &body), &jobs, LEASE).into_iter().map(|(finish, _)| finish).collect();
    assert_eq!((read[0].outcome, read[0].done.result.as_deref()), (Outcome::Succeeded, Some(r#"{"ok": 1}"#)));
    assert_eq!(read[1].outcome, Outcome::Failed { retry: Retry::Permanent });
    assert_eq!(read[2].outcome, Outcome::Failed { retry: Retry::ByPolicy }, "no outcome for it");
    assert_eq!(read[3].done.hand_over, Some(LEASE));
    for (response, outcome) in [
        (response(500, ""), Outcome::Failed { retry: Retry::ByPolicy }),
        (response(404, ""), Outcome::Failed { retry: Retry::Permanent }),
        (later(429, 3), Outcome::Snoozed { delay: Duration::from_secs(3) }),
        (response(200, "ok"), Outcome::Failed { retry: Retry::ByPolicy }),
    ] {
        let all = read_batch(&response, &jobs, LEASE);
        assert!(all.len() == 4 && all.iter().all(|(finish, _)| finish.outcome == outcome));
    }
}
