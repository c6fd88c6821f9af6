//! The UI in a real browser: what each role can do, live updates, keyboard, screen reader, and hostile text.

mod access;
mod axe;
pub(crate) mod chrome;
mod contents;
mod flows;
mod hostile;
mod live;
mod many;
mod members;
mod pictures;
mod states;
mod storm;
mod weight;
mod world;

use uuid::Uuid;

use world::World;

/// Every page, by name and address, as a super-admin sees them for Acme.
async fn pages(world: &World) -> Vec<(&'static str, String)> {
    let running = world.in_state(windlass::job::State::Running).await;
    let dead = world.in_state(windlass::job::State::DeadLetter).await;
    let queued = world.in_state(windlass::job::State::Queued).await;
    let trigger = world.trigger_with_a_past().await;
    world.people().await;
    world.miss_heartbeats("host-7:4211:worker").await;
    let definition = world.definition_id("sync-dropbox").await;
    let mut pages: Vec<(&'static str, String)> = [
        ("jobs", "/ui/jobs"),
        ("jobs-none", "/ui/jobs?tag=nobody-has-this"),
        ("new-job", "/ui/jobs/new?definition=sync-dropbox"),
        ("triggers", "/ui/triggers"),
        ("new-trigger", "/ui/triggers/new"),
        ("new-event-trigger", "/ui/triggers/new?type=event"),
        ("dead-letters", "/ui/dead-letters"),
        ("queues", "/ui/queues"),
        ("workers", "/ui/workers"),
        ("overview", "/ui/overview"),
        ("retention", "/ui/retention"),
        ("definitions", "/ui/definitions"),
        ("new-definition", "/ui/definitions/new"),
        ("tenants", "/ui/tenants"),
        ("members", "/ui/members"),
        ("new-member", "/ui/members/new"),
        ("new-tenant", "/ui/tenants/new"),
        ("tokens", "/ui/tokens"),
        ("new-token", "/ui/tokens/new"),
        ("audit", "/ui/audit"),
        ("components", "/ui/components"),
        ("not-found", "/ui/nowhere"),
    ]
    .into_iter()
    .map(|(name, path)| (name, path.to_owned()))
    .collect();
    pages.extend([
        ("job-running", job_page(running)),
        ("job-dead", job_page(dead)),
        ("job-queued", job_page(queued)),
        ("trigger", format!("/ui/triggers/{trigger}")),
        ("definition", format!("/ui/definitions/{definition}")),
        ("tenant", format!("/ui/tenants/{}", world.acme)),
    ]);
    pages
}

/// The pages without a session: by name and address.
async fn open_pages(world: &World) -> Vec<(&'static str, String)> {
    world.server.member(world.acme, "forgetful@acme.example", "viewer").await;
    vec![
        ("sign-in", "/ui/sign-in".to_owned()),
        ("invitation", world.invite("new@acme.example", "operator").await),
        ("invitation-gone", "/ui/invitations/none".to_owned()),
        ("password-reset", world.reset_link("forgetful@acme.example").await),
    ]
}

/// A person's own pages: their account, an invitation for them and one for another person, and the choice of a tenant when theirs
/// no longer exists. Signs them in.
async fn personal_pages(world: &World, chrome: &chrome::Chrome) -> Vec<(&'static str, String)> {
    let of_another = world.invite("somebody@else.example", "viewer").await;
    world.server.member(world.globex, "two@tenants.example", "viewer").await;
    let own = world.invite("two@tenants.example", "tenant_admin").await;
    chrome.enter("two@tenants.example").await;
    vec![
        ("account", "/ui/account".to_owned()),
        ("invitation-accept", own),
        ("invitation-other", of_another),
        ("tenant-choice", "/ui/tenant".to_owned()),
    ]
}

/// The pages of a new tenant.
const NOTHING_THERE: [&str; 4] = ["/ui/jobs", "/ui/triggers", "/ui/dead-letters", "/ui/members"];

fn job_page(id: Uuid) -> String {
    format!("/ui/jobs/{id}")
}
