//! No process of a job is alive once its worker, its supervisor or its command was killed or frozen (invariants 18 to 20).

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use windlass_testing::eventually;

use super::yard::{Yard, send_signal};
use crate::support::attempts;

/// A command with a child in its group, one in a separate group, and, if there is a supervisor to find it, one in a separate session.
const CONFIG: &str = r#"
[commands.family]
argv = ["/bin/sh", "-c", '''
  sleep 1001 DIR 2>/dev/null & /bin/sh -c 'while :; do sleep 1; done' DIR &
  setsid /bin/sh -c 'while :; do sleep 1; done' DIR &
  echo $$ > DIR/pid
  trap "" TERM
  while :; do sleep 1; done''', "DIR"]
grace = "300ms"
timeout = "100s"

[commands.plain]
argv = ["/bin/sh", "-c", '''
  /bin/sh -c 'while :; do sleep 1; done' DIR &
  echo $$ > DIR/pid
  while :; do sleep 1; done''', "DIR"]
grace = "300ms"
"#;

/// The lease of these tests, and the allowed time beyond it.
const LEASE: Duration = Duration::from_secs(3);
const ALLOWED: Duration = Duration::from_secs(13);

async fn started(yard: &Yard, key: &str) -> (uuid::Uuid, i32) {
    let job = yard.send(key, json!({})).await;
    let pid = yard.pid_in("pid").await;
    let wanted = if key == "family" { 3 } else { 2 };
    eventually("the processes exist", async || yard.census().len() >= wanted).await;
    (job, pid)
}

async fn nothing_is_left_in_time(yard: &Yard, since: Instant) {
    yard.nothing_is_left().await;
    assert!(since.elapsed() < ALLOWED, "{:?}", since.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_leaves_no_process() {
    let yard = Yard::new(CONFIG).await;
    let mut worker = yard.worker_with_lease(3000).await;
    started(&yard, "family").await;
    let shims = worker.shims();
    assert_eq!(shims.len(), 1);
    let since = Instant::now();
    worker.signal(Signal::KILL);
    worker.child.wait().await.unwrap();
    nothing_is_left_in_time(&yard, since).await;
    eventually("the supervisor has ended too", async || {
        !std::path::Path::new(&format!("/proc/{}", shims[0])).exists()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_workers_command_ends_before_its_lease() {
    let yard = Yard::new(CONFIG).await;
    let worker = yard.worker_with_lease(3000).await;
    let (job, _) = started(&yard, "family").await;
    let since = Instant::now();
    worker.signal(Signal::STOP);
    yard.nothing_is_left().await;
    assert!(since.elapsed() < LEASE, "ended after {:?}", since.elapsed());
    // Another worker claims the job; the frozen one finds that it has lost it.
    let heir = yard.worker_with_lease(3000).await;
    std::fs::remove_file(yard.directory.join("pid")).unwrap();
    yard.pid_in("pid").await;
    worker.signal(Signal::CONT);
    assert_eq!(attempts(&yard.client, job).await, ["lost", "running"]);
    yard.queue.cancel(windlass::DEFAULT_TENANT, job).await.unwrap();
    yard.ended(job, "canceled").await;
    heir.finish().await;
    yard.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_supervisor_ends_its_command() {
    let yard = Yard::new(CONFIG).await;
    let worker = yard.worker_with_lease(3000).await;
    let (job, _) = started(&yard, "plain").await;
    let since = Instant::now();
    send_signal(worker.shims()[0], Signal::KILL);
    eventually("the attempt has failed", async || {
        attempts(&yard.client, job).await.first().is_some_and(|one| one == "failed")
    })
    .await;
    nothing_is_left_in_time(&yard, since).await;
    // The worker continues.
    yard.queue.cancel(windlass::DEFAULT_TENANT, job).await.unwrap();
    std::fs::remove_file(yard.directory.join("pid")).unwrap();
    let (next, _) = started(&yard, "plain").await;
    yard.queue.cancel(windlass::DEFAULT_TENANT, next).await.unwrap();
    yard.ended(next, "canceled").await;
    worker.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_supervisor_is_detected_and_replaced() {
    let yard = Yard::new(CONFIG).await;
    let worker = yard.worker_with_lease(3000).await;
    let (job, _) = started(&yard, "family").await;
    let since = Instant::now();
    send_signal(worker.shims()[0], Signal::STOP);
    eventually("the attempt has failed", async || {
        attempts(&yard.client, job).await.first().is_some_and(|one| one == "failed")
    })
    .await;
    nothing_is_left_in_time(&yard, since).await;
    yard.queue.cancel(windlass::DEFAULT_TENANT, job).await.unwrap();
    worker.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_command_ends_its_descendants() {
    let yard = Yard::new(CONFIG).await;
    let worker = yard.worker_with_lease(3000).await;
    let (job, pid) = started(&yard, "family").await;
    let since = Instant::now();
    send_signal(pid, Signal::KILL);
    eventually("the attempt has failed", async || {
        attempts(&yard.client, job).await.first().is_some_and(|one| one == "failed")
    })
    .await;
    nothing_is_left_in_time(&yard, since).await;
    yard.queue.cancel(windlass::DEFAULT_TENANT, job).await.unwrap();
    worker.finish().await;
}

/// A stopped one can be asked to end anyway, and is killed if it does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_command_can_be_canceled() {
    let yard = Yard::new(CONFIG).await;
    let worker = yard.worker_with_lease(3000).await;
    let (job, pid) = started(&yard, "family").await;
    send_signal(pid, Signal::STOP);
    yard.queue.cancel(windlass::DEFAULT_TENANT, job).await.unwrap();
    yard.ended(job, "canceled").await;
    assert_eq!(yard.census(), []);
    worker.finish().await;
}
