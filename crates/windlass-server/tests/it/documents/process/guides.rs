//! `docs/guides/` and the page on operation: each on a server and a database of its own.

use windlass::{DEFAULT_TENANT, NewJob};
use windlass_server::auth::create_admin_token;

use super::{Desk, blocks};
use crate::support::TestServer;

const PAGES: [&str; 6] = [
    "guides/retries",
    "guides/uniqueness",
    "guides/multi-tenancy",
    "guides/security",
    "guides/upgrading",
    "operating",
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
        // A job to look at.
        server.queue.define(&windlass::Definition::new("look")).await.unwrap();
        let job = server.queue.enqueue(&NewJob::new("look").tenant(DEFAULT_TENANT)).await.unwrap();
        desk.set("JOB", job.id.to_string());
        for block in blocks(&format!("{page}.md")) {
            match block.language.as_str() {
                // Roles are the whole server's, which other tests use, so what they do is undone.
                "sql" if block.text.contains("create role") => {
                    client.batch_execute(&format!("begin;\n{}\nrollback;", block.text)).await.unwrap();
                }
                "sql" => {
                    let ran = client.batch_execute(&block.text).await;
                    ran.unwrap_or_else(|error| panic!("{page}: {}\n{error:?}", block.text));
                }
                _ => {
                    desk.run(&block).await;
                }
            }
        }
    }
}
