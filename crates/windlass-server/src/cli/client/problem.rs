//! The failure of a command whose call was refused: the message of the response, its exit code, and what to do.

use axum::http::StatusCode;
use serde_json::Value;

use crate::cli::exit::{Exit, Failure};
use crate::cli::print;
use crate::http::ProblemKind;

/// The message of a problem+json response, with advice.
pub(super) fn problem_failure(status: StatusCode, body: &[u8]) -> Failure {
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = ["detail", "title"].iter().find_map(|key| problem.get(*key).and_then(Value::as_str));
    let mut message = text.map_or_else(|| format!("the server returned {status}"), str::to_owned);
    for error in problem.get("errors").and_then(Value::as_array).into_iter().flatten() {
        let (pointer, what) =
            (print::text(print::at(error, "pointer")), print::text(print::at(error, "message")));
        // The detail of a problem with one error contains it.
        if !message.contains(&what) {
            message.push_str(&format!("\n  {pointer}: {what}"));
        }
    }
    let is_of = |kind: ProblemKind| print::at(&problem, "type") == kind.urn().as_str();
    let is_missing_definition = print::at(&problem, "errors").as_array().into_iter().flatten().any(|error| {
        print::at(error, "pointer") == "/definition_key"
            && print::text(print::at(error, "message")).contains(" not found")
    });
    let (exit, advice) = match status.as_u16() {
        401 => (
            Exit::Denied,
            Some(
                "provide a token: --token-file FILE or WINDLASS_TOKEN (`windlass up` writes one to its directory)",
            ),
        ),
        403 => (
            Exit::Denied,
            Some("use a token whose role has this permission: --token-file FILE or WINDLASS_TOKEN"),
        ),
        404 => (Exit::Missing, None),
        409 if message.ends_with(" is suspended") => {
            (Exit::Conflict, Some("`windlass tenants set TENANT --resume` ends the suspension"))
        }
        409 | 412 => (Exit::Conflict, None),
        422 if is_missing_definition => {
            (Exit::Missing, Some("`windlass definitions list` lists the definitions"))
        }
        400 | 413 | 415 | 422 => (Exit::Usage, None),
        503 if is_of(ProblemKind::Contention) => (Exit::Conflict, None),
        503 => (Exit::Unreachable, None),
        429 if is_of(ProblemKind::QuotaReached) && message.contains("trigger") => (
            Exit::Conflict,
            Some(
                "delete a trigger, or let a super-admin raise the limit: `windlass tenants set TENANT --max-triggers N`",
            ),
        ),
        429 if is_of(ProblemKind::QuotaReached) => (
            Exit::Conflict,
            Some(
                "wait until jobs have ended, or let a super-admin raise the quota: `windlass tenants set TENANT --max-queued N`",
            ),
        ),
        429 => (Exit::Unreachable, Some("wait a moment and try again")),
        _ => (Exit::Internal, None),
    };
    let failure = Failure::new(exit, message);
    match advice {
        Some(advice) => failure.advise(advice),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use serde_json::json;

    use super::{Exit, problem_failure};

    #[test]
    fn a_problem_keeps_the_message_of_each_field() {
        let body = json!({"type": "/problems/invalid", "detail": "the job is refused",
            "errors": [{"pointer": "/payload/model", "message": "is required"}]});
        let failure = problem_failure(StatusCode::UNPROCESSABLE_ENTITY, body.to_string().as_bytes());
        assert_eq!(failure.exit, Exit::Usage);
        assert_eq!(failure.message, "the job is refused\n  /payload/model: is required");
        let body = json!({"detail": "limit: must be small", "errors": [{"pointer": "?limit", "message": "must be small"}]});
        let once = problem_failure(StatusCode::UNPROCESSABLE_ENTITY, body.to_string().as_bytes());
        assert_eq!(once.message, "limit: must be small");
        let busy = |kind: &str| {
            let body = json!({"type": format!("urn:windlass:problem:{kind}"), "detail": "x"});
            problem_failure(StatusCode::SERVICE_UNAVAILABLE, body.to_string().as_bytes()).exit
        };
        assert_eq!((busy("contention"), busy("unavailable")), (Exit::Conflict, Exit::Unreachable));
        let too_many = |kind: &str| {
            let body = json!({"type": format!("urn:windlass:problem:{kind}"), "detail": "x"});
            problem_failure(StatusCode::TOO_MANY_REQUESTS, body.to_string().as_bytes())
        };
        let (quota, rate) = (too_many("quota-reached"), too_many("too-many-requests"));
        assert_eq!((quota.exit, rate.exit), (Exit::Conflict, Exit::Unreachable));
        assert!(quota.to_string().contains("--max-queued") && rate.to_string().contains("wait a moment"));
        let plain = problem_failure(StatusCode::BAD_GATEWAY, b"<html>");
        assert_eq!((plain.exit, plain.message.contains("502")), (Exit::Internal, true));
    }
}
