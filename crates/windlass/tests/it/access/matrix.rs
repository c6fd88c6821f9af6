//! Every function, as every role, with valid arguments of its own tenant and of another one: what it returns and changes is written in
//! tenants.txt. A function that is not in the file fails the test, and so does one whose effect on another tenant the file does not
//! explain.

use std::collections::BTreeSet;

use tokio_postgres::Client;
use uuid::Uuid;
use windlass_testing::{Login, TestQueue};

use super::calls::{answer, functions};
use super::changes::{self, AUDIT, Changes, NOBODY, OTHER};
use super::stock::{About, stock};
use super::written::{Written, compare};
use super::{GROUPS, create_jobs_in_every_table};

/// These may act for the default tenant or the current one, and for no other.
const BOUND: [&str; 3] = ["windlass_app", "windlass_reader", "windlass_puller"];

/// People log in with these and call functions directly. What they change has a row in the audit trail.
const PEOPLE: [&str; 2] = ["windlass_operator", "windlass_admin"];

/// These are refused as long as the tenant has a legal hold.
const NEEDS_NO_HOLD: [&str; 1] = ["purge_tenant"];

/// What these change depends on the clock and on transactions of other sessions.
const TIMED: [&str; 7] = [
    "maintain_partitions",
    "prune",
    "sample_activity",
    "seal_audit",
    "summarize_times",
    "tick",
    "unblock_all",
];

/// What a call returned and changed.
struct Outcome {
    /// `answers`, or the SQLSTATE of the refusal.
    answer: String,
    text: String,
    changes: Changes,
}

impl Outcome {
    /// Whether it shows a row of this tenant.
    fn shows(&self, about: &About) -> bool {
        self.text.contains(about.mark) || self.text.contains(&about.tenant.to_string())
    }

    /// As it is written in the file.
    fn line(&self, other: &About) -> String {
        let mut line = self.answer.clone();
        if self.shows(other) {
            line += " (shows other)";
        }
        if !self.changes.is_empty() {
            line += &format!(" (changes {})", self.changes);
        }
        line
    }
}

/// The two tenants, and a connection of a role that calls functions for them.
struct Caller<'a> {
    client: &'a Client,
    own: &'a About,
    other: &'a About,
}

impl Caller<'_> {
    /// Nothing of it stays.
    async fn call(&self, current: Option<Uuid>, call: &str) -> Outcome {
        let current = current.map(|tenant| tenant.to_string()).unwrap_or_default();
        let begin = format!("begin; set local windlass.tenant_id = '{current}'");
        self.client.batch_execute(&begin).await.unwrap();
        let (answer, text) = answer(self.client, call).await;
        let is_timed = TIMED.iter().any(|name| call.starts_with(&format!("windlass.{name}(")));
        let changes = if answer == "answers" && !is_timed {
            Changes::of(self.client, self.own.tenant, self.other.tenant).await
        } else {
            Changes::default()
        };
        self.client.batch_execute("rollback").await.unwrap();
        Outcome { answer, text, changes }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_function_reaches_any_tenant_but_the_current_one() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    let (own, other) = (queue.tenant("own").await, queue.tenant("other").await);
    for tenant in [own, other] {
        create_jobs_in_every_table(&queue, tenant).await;
    }
    let own = stock(&queue, own, "known-to-its-own-tenant").await;
    let other = stock(&queue, other, "known-to-the-other-tenant").await;
    // The keeper of a worker led the duties for some seconds, and what `lead` changes would depend on the time since then.
    admin.batch_execute("delete from windlass.leader").await.unwrap();
    changes::note(&admin).await;
    let (mut written, mut shown, mut wrong) = (Written::default(), BTreeSet::new(), Vec::new());
    for group in GROUPS {
        let role = Login::create(&queue, group).await;
        let client = role.client().await;
        let caller = Caller { client: &client, own: &own, other: &other };
        let (short, is_bound) = (group.trim_start_matches("windlass_"), BOUND.contains(&group));
        for function in functions(&admin).await {
            if !function.is_granted_to(&admin, group).await {
                continue;
            }
            let needs_no_hold = NEEDS_NO_HOLD.contains(&function.name.as_str());
            if needs_no_hold {
                let take =
                    "create table public.holds as table windlass.legal_hold; delete from windlass.legal_hold";
                admin.batch_execute(take).await.unwrap();
            }
            let (ours, theirs) = (function.call(&own), function.call(&other));
            let foreign = caller.call(Some(own.tenant), &theirs).await;
            let mine = caller.call(Some(own.tenant), &ours).await;
            let mirrored = caller.call(Some(other.tenant), &theirs).await;
            let none = caller.call(None, &theirs).await;
            if needs_no_hold {
                let give_back = "insert into windlass.legal_hold table public.holds; drop table public.holds";
                admin.batch_execute(give_back).await.unwrap();
            }
            let name = &function.name;
            for reached in [&foreign, &none] {
                if is_bound && (reached.shows(&other) || reached.changes.are_of(OTHER)) {
                    wrong.push(format!("{short} reaches another tenant: {theirs}"));
                }
            }
            written.line(format!(
                "{name} as {short}: own {}, other {}, none {}",
                mine.line(&other),
                foreign.line(&other),
                none.line(&other)
            ));
            let is_refused = mine.answer != "answers";
            let is_idle = !is_refused && mine.changes.is_empty() && !mine.shows(&own);
            if is_refused && none.answer != "answers" {
                wrong.push(format!("{short} is refused in every case: {ours}"));
            }
            written.explain("refused for its own tenant", is_refused, name);
            written.explain("neither shows nor changes a row of its own tenant", is_idle, name);
            written.explain("answers for another tenant's arguments", foreign.answer == "answers", name);
            written.explain("shows rows of another tenant", foreign.shows(&other), name);
            written.explain("changes rows of another tenant", foreign.changes.are_of(OTHER), name);
            let is_global = mine.changes.are_of(NOBODY) || foreign.changes.are_of(NOBODY);
            written.explain("changes rows of no tenant while there is a current one", is_global, name);
            let is_unrecorded =
                |outcome: &Outcome| !outcome.changes.is_empty() && !outcome.changes.have(AUDIT);
            let is_unrecorded = PEOPLE.contains(&group) && (is_unrecorded(&mine) || is_unrecorded(&none));
            written.explain("changes rows without a row in the audit trail", is_unrecorded, name);
            if mirrored.shows(&other) {
                shown.insert(name.clone());
            }
            written.explain(SHOWS_NOTHING, function.returns_text, name);
        }
        drop(client);
        role.drop().await;
    }
    // The positive control: whatever can show a row of a tenant shows it to the tenant itself.
    written.forgive(SHOWS_NOTHING, &shown);
    compare(&written);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

const SHOWS_NOTHING: &str = "shows its own tenant no row of it";
