//! The contents that document 004 specifies for the Jobs page, read from the page as it is sent.

use windlass::job::State;
use windlass_server::auth::Role;

use super::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_page_has_its_cards_columns_and_row_actions() {
    let world = World::busy().await;
    let client = world.server.client(world.acme, Role::TenantAdmin).await;
    let page = client.get("/ui/jobs").await;
    assert_eq!(page.status, 200);
    let card = |key: &str| {
        let (_, rest) = page.text.split_once(&format!("id=\"card-{key}\"")).unwrap();
        rest.split_once("class=\"value\">").unwrap().1.split('<').next().unwrap().to_owned()
    };
    assert_eq!(card("queued"), "1");
    assert_eq!(card("running"), "1");
    assert_eq!(card("failed"), "1");
    assert_eq!(card("dead"), "4");
    assert_eq!(card("succeeded"), "36");
    let (_, head) = page.text.split_once("data-columns=\"jobs\"").unwrap();
    let head = head.split("</thead>").next().unwrap();
    for column in [
        "Job",
        "Status",
        "Definition",
        "Source",
        "Attempts",
        "Queued",
        "Started",
        "Finished",
        "Duration",
        "Worker",
    ] {
        assert!(head.contains(&format!(">{column}</th>")), "{column}: {head}");
    }
    let row = |id: uuid::Uuid| {
        let (_, rest) = page.text.split_once(&format!("<tr id=\"job-{id}\"")).unwrap();
        rest.split("</tr>").next().unwrap().to_owned()
    };
    let (running, dead) =
        (row(world.in_state(State::Running).await), row(world.in_state(State::DeadLetter).await));
    assert!(running.contains("name=\"cancel\"") && !running.contains("name=\"retry\""), "{running}");
    assert!(dead.contains("name=\"retry\"") && !dead.contains("name=\"cancel\""), "{dead}");
    assert!(dead.contains("#attempts\""), "{dead}");

    let job = client.get(&format!("/ui/jobs/{}", world.in_state(State::DeadLetter).await)).await;
    assert!(job.text.contains("Became a dead letter"), "{}", job.text);
    assert!(job.text.contains("connection to provider 1 refused after 30 s"));
    let waits = client.get(&format!("/ui/jobs/{}", world.in_state(State::Queued).await)).await;
    assert!(
        waits.text.contains("Why it is waiting") && waits.text.contains("No live worker has a handler for"),
        "{}",
        waits.text
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_may_run_only_our_own_scripts() {
    let world = World::quiet().await;
    let client = world.server.client(world.acme, Role::Viewer).await;
    for path in ["/ui/jobs", "/ui/sign-in", "/ui/nowhere", "/ui/workers"] {
        let page = client.get(path).await;
        let policy = page.header("content-security-policy").unwrap_or_default();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"),
            "{path}: {policy}"
        );
        assert!(!policy.contains("unsafe"), "{path}");
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert!(!page.text.contains(" style=\"") && !page.text.contains("<style"), "{path}");
        assert_eq!(
            page.text.matches("<script").count(),
            page.text.matches("<script src=\"/ui/assets/").count(),
            "{path}"
        );
    }
    let asset = client.get("/ui/assets/windlass.css").await;
    let tag = asset.header("etag").unwrap().to_owned();
    assert_eq!(client.with("if-none-match", tag).get("/ui/assets/windlass.css").await.status, 304);
    world.end().await;
}
