//! `docs/guides/` and related pages: each on its own server and database.

use std::fs;

use serde_json::{Value, json};
use windlass::{DEFAULT_TENANT, Definition, NewJob};
use windlass_server::auth::create_admin_token;

use super::{Block, Desk, blocks};
use crate::support::TestServer;

pub(crate) const PAGES: [&str; 9] = [
    "guides/retries",
    "guides/uniqueness",
    "guides/multi-tenancy",
    "guides/security",
    "guides/upgrading",
    "operating",
    "events",
    "schedules",
    "sql",
];

#[tokio::test(flavor = "multi_thread")]
async fn every_block_of_the_guides_runs() {
    for page in PAGES {
        let server = TestServer::start().await;
        let client = server.queue.client().await;
        let mut desk = Desk::new(&server.base);
        desk.set("WINDLASS_SERVER", &server.base);
        desk.set("WINDLASS_TOKEN", create_admin_token(&server.queue, "guides").await.unwrap().expose());
        desk.set("DATABASE_URL", server.queue.url());
        // A job to read, and the objects that the pages assume.
        for key in ["look", "resize", "sync-dropbox"] {
            server.queue.define(&Definition::new(key)).await.unwrap();
        }
        client.batch_execute("create table image (id bigint)").await.unwrap();
        let job = server.queue.enqueue(&NewJob::new("look").tenant(DEFAULT_TENANT)).await.unwrap();
        desk.set("JOB", job.id.to_string());
        let blocks = blocks(&format!("docs/{page}.md"));
        assert!(!blocks.is_empty(), "{page} has no blocks");
        for block in blocks {
            match block.language.as_str() {
                // Roles belong to the whole server, which other tests use, so the changes are undone.
                "sql" if block.text.contains("create role") => {
                    client.batch_execute(&format!("begin;\n{}\nrollback;", block.text)).await.unwrap();
                }
                "sql" => {
                    let ran = client.batch_execute(&block.text).await;
                    ran.unwrap_or_else(|error| panic!("{page}: {}\n{error:?}", block.text));
                }
                "json" => post(&server, page, &block).await,
                "toml" => check(&desk, &block).await,
                // The doc tests of the library.
                "rust" => {}
                _ => {
                    desk.run(&block).await;
                }
            }
        }
    }
}

/// The server's file of hooks, checked by the program itself: it reports a missing secret, and nothing once it is set.
async fn check(desk: &Desk, block: &Block) {
    const SECRET: &str = "/run/secrets/dropbox";
    assert!(block.text.contains(SECRET), "{}", block.text);
    let shell = |text: &str| Block { language: "sh".to_owned(), text: text.to_owned(), posted_to: None };
    let ask = shell("WINDLASS_HOOKS_FILE=hooks.toml windlass config check");
    fs::write(desk.folder.join("hooks.toml"), &block.text).unwrap();
    let refused = desk.command(&ask).output().await.unwrap();
    assert!(!refused.status.success(), "{refused:?}");
    let secret = desk.folder.join("secret");
    fs::write(&secret, "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz\n").unwrap();
    fs::write(desk.folder.join("hooks.toml"), block.text.replace(SECRET, secret.to_str().unwrap())).unwrap();
    desk.run(&ask).await;
}

/// An accepted object must have the fields that were sent.
async fn post(server: &TestServer, page: &str, block: &Block) {
    let path = block
        .posted_to
        .as_deref()
        .unwrap_or_else(|| panic!("{page}: to which path is this posted?\n{}", block.text));
    let body: Value = serde_json::from_str(&block.text).unwrap();
    let response = server.admin.post(path, &body).await;
    assert!(response.status.is_success(), "{page}: {}\n{response:?}", block.text);
    let made = response.json();
    for (field, value) in body.as_object().unwrap() {
        assert_eq!(made.get(field).unwrap_or(&json!(null)), value, "{page}: {field}");
    }
}
