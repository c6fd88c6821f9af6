//! The reference's numbers and decisions in the format of the SQL functions.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;
use windlass::internals::settle::{Budget, Next, Settlement};
use windlass::job::IfUnmet;

use super::operation::{Request, TICK};
use super::reference::{TENANTS, tenant_of};

/// Jobs of the two tenants have the same id, which must not confuse them.
pub(super) fn id_of(job: usize) -> Uuid {
    Uuid::from_u128(u128::try_from(job / TENANTS).unwrap() + 1)
}

pub(super) fn number_of(id: Uuid, of_tenant: usize) -> usize {
    usize::try_from(id.as_u128() - 1).unwrap() * TENANTS + tenant_of(of_tenant)
}

pub(super) fn needs_of(job: usize, request: &Request) -> Vec<Uuid> {
    let mine =
        request.needs.iter().filter(|&&need| tenant_of(need) == tenant_of(job)).map(|&need| id_of(need));
    mine.chain(request.needs_nobody.then_some(Uuid::max())).collect()
}

/// From the columns attempt, failures, lost, snoozes, max_attempts and deadline_ms, which start at `first`.
pub(super) fn budget(row: &Row, first: usize, cancel_requested: bool) -> Budget {
    let remaining: Option<i64> = row.get(first + 5);
    Budget {
        attempt: row.get(first),
        failures: row.get(first + 1),
        lost: row.get(first + 2),
        snoozes: i32::from(row.get::<_, i16>(first + 3)),
        max_attempts: row.get(first + 4),
        max_lost: 0,
        max_snoozes: 0,
        cancel_requested,
        remaining: remaining.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0))),
    }
}

pub(super) fn detail(decided: &Settlement) -> Value {
    let delay_ms = match decided.next {
        Next::Scheduled { after } => Some(u64::try_from(after.as_millis()).unwrap()),
        _ => None,
    };
    json!({
        "outcome": decided.attempt_outcome.code(), "next": decided.next.state().code(), "delay_ms": delay_ms,
        "failures": decided.failures, "lost": decided.lost, "snoozes": decided.snoozes,
        "reason": decided.reason.map(|reason| reason.as_str()),
    })
}

pub(super) fn column<'a, T: tokio_postgres::types::FromSql<'a>>(rows: &'a [Row], column: usize) -> Vec<T> {
    rows.iter().map(|row| row.get(column)).collect()
}

pub(super) fn if_unmet(policy: IfUnmet) -> &'static str {
    match policy {
        IfUnmet::Cancel => "cancel",
        IfUnmet::Run => "run",
        IfUnmet::Wait => "wait",
        _ => panic!("{policy:?} has no word"),
    }
}

pub(super) fn key(name: u8) -> String {
    format!("k{name}")
}

pub(super) fn seconds(ticks: i64) -> i64 {
    ticks * i64::try_from(TICK.as_secs()).unwrap()
}
