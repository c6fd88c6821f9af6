//! Shared by the tests of the examples: a server with its keeper, definitions from the example's own file, and processes.

mod call_transcription;
mod clipnest;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use windlass::DEFAULT_TENANT;
use windlass::job::Job;
use windlass::keeper::{Keeper, KeeperSettings};
use windlass_testing::eventually;

use crate::support::TestServer;

struct Stage {
    server: TestServer,
    stop: CancellationToken,
    keeping: tokio::task::JoinHandle<()>,
    files: PathBuf,
}

impl Stage {
    /// With the definitions of the example, loaded over the API.
    async fn start(example: &str) -> Self {
        let server = TestServer::start().await;
        let definitions = std::fs::read_to_string(root().join(example).join("definitions.json")).unwrap();
        for definition in serde_json::from_str::<Vec<serde_json::Value>>(&definitions).unwrap() {
            server.admin.post("/api/v1/admin/jobs/definitions", &definition).await.expect(201);
        }
        let often = Duration::from_millis(50);
        let settings = KeeperSettings::default().promote(often).reap(often);
        let stop = CancellationToken::new();
        let keeping = tokio::spawn(Keeper::new(server.queue.queue().clone(), settings).run(stop.clone()));
        let files = std::env::temp_dir().join(format!("windlass-{example}-{}", Uuid::new_v4()));
        std::fs::create_dir_all(&files).unwrap();
        Self { server, stop, keeping, files }
    }

    async fn job(&self, id: Uuid) -> Job {
        self.server.queue.job(DEFAULT_TENANT, id).await.unwrap().unwrap()
    }

    async fn end(mut self) {
        self.stop.cancel();
        self.keeping.await.unwrap();
        self.server.stop().await;
        let _ = std::fs::remove_dir_all(&self.files);
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().unwrap()
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.kill_on_drop(true);
    command
}

async fn answers(port: u16) {
    eventually("the service responds", async || {
        tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok()
    })
    .await;
}

async fn succeed(mut child: Child, what: &str) {
    let status =
        tokio::time::timeout(Duration::from_secs(240), child.wait()).await.expect("it ends").unwrap();
    assert!(status.success(), "{what}: {status}");
}
