//! Tenants that come and go: created, used, suspended, resumed and deleted with their jobs, over HTTP.

use std::time::Duration;

use serde_json::json;
use uuid::Uuid;

use super::Callers;
use super::http::{Answer, Request, call};
use super::intent::Author;
use crate::soak::ledger::Fact;

const JOBS: usize = 10;
const PAUSE: Duration = Duration::from_secs(3);

pub(super) async fn churn(callers: Callers, mut author: Author) {
    let mut number = 0;
    while !callers.is_stopped() {
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = callers.stop.cancelled() => return,
        }
        let _running = callers.site.gate.read().await;
        number += 1;
        // A lost response leaves a tenant that nobody uses.
        let _ = one(&callers, &mut author, number).await;
    }
}

async fn one(callers: &Callers, author: &mut Author, number: u32) -> Option<()> {
    let body = json!({"slug": format!("guest-{number}"), "name": "Guest"});
    let Answer::Done(tenant) =
        call(callers, author, Request { body: Some(&body), ..Request::post(None, "/api/v1/admin/tenants") })
            .await
    else {
        return None;
    };
    let id: Uuid = tenant["id"].as_str()?.parse().ok()?;
    for _ in 0..JOBS {
        let mut intent = author.plain();
        intent.tenant = id;
        author.note_sent(&intent, "http");
        let body = intent.body();
        let request = Request { body: Some(&body), ..Request::post(Some(id), "/api/v1/jobs") };
        match call(callers, author, request).await {
            Answer::Done(job) => {
                let job = job["id"].as_str()?.parse().ok()?;
                callers.site.ledger.note(Fact::Acked { intent: intent.number, job, is_duplicate: false });
            }
            Answer::Refused(why) => author.note_refused(&intent, &why),
            Answer::Unknown => {}
        }
    }
    let path = format!("/api/v1/admin/tenants/{id}");
    for status in ["suspended", "active"] {
        let body = json!({"status": status});
        let request = Request { method: "PATCH", body: Some(&body), ..Request::post(None, &path) };
        call(callers, author, request).await;
    }
    callers.site.ledger.note(Fact::TenantDeleteSent { tenant: id });
    if let Answer::Done(_) =
        call(callers, author, Request { method: "DELETE", ..Request::post(None, &path) }).await
    {
        callers.site.ledger.note(Fact::TenantDeleted { tenant: id });
    }
    Some(())
}
