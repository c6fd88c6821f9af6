//! Schedulers killed and frozen while the database's clock is moved forward and back, with Debian's libfaketime on the server
//! alone: only the clock of the database counts.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use rustix::process::Signal;
use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::schedule::{Misfire, NewTrigger, Schedule};
use windlass::setup::embedded::{Postgres, ServerSource};
use windlass::{DEFAULT_TENANT, Definition, Queue};
use windlass_testing::{eventually, settings};

use super::accounting::number;
use super::fleet::{Fleet, WorkerProcess};
use crate::embedded::scratch::{Scratch, connect};

const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
const BINARIES: &str = "/usr/lib/postgresql/15/bin";

/// A clock that the test moves: the offset that the server adds to the machine's time.
struct Clock {
    file: PathBuf,
}

impl Clock {
    fn set(&self, minutes: i64) {
        // Written to another file and renamed, so that no backend reads a partial one.
        let fresh = self.file.with_extension("new");
        fs::write(&fresh, format!("{:+}\n", minutes * 60)).unwrap();
        fs::rename(fresh, &self.file).unwrap();
    }
}

/// The system's Postgres with its own clock: every process that pg_ctl starts has it.
async fn server(scratch: &Scratch) -> (Postgres, Clock) {
    assert!(Path::new(LIBRARY).exists(), "install Debian's package libfaketime");
    let clock = Clock { file: scratch.path.join("clock") };
    clock.set(0);
    let bin = scratch.path.join("bin");
    fs::create_dir_all(&bin).unwrap();
    for program in ["initdb", "postgres"] {
        symlink(Path::new(BINARIES).join(program), bin.join(program)).unwrap();
    }
    let script = format!(
        "#!/bin/sh\nexport LD_PRELOAD={LIBRARY} FAKETIME_TIMESTAMP_FILE={} FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1\nexec {BINARIES}/pg_ctl \"$@\"\n",
        clock.file.display()
    );
    fs::write(bin.join("pg_ctl"), script).unwrap();
    fs::set_permissions(bin.join("pg_ctl"), fs::Permissions::from_mode(0o755)).unwrap();
    let options = scratch.options().source(ServerSource::Path(bin));
    (Postgres::start(&options).await.unwrap(), clock)
}

/// Invariants 35, 37 and 39: the fires are those of the pure function, each once, whatever happened to clocks and processes, even
/// while the triggers are edited.
#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_instants_fire_once_each_under_kills_freezes_and_a_rolling_clock() {
    let (scratch, fleet) = (Scratch::new(), Fleet::new());
    let (postgres, clock) = server(&scratch).await;
    windlass::migrate(&settings(&postgres.url())).await.unwrap();
    let queue = Queue::connect(settings(&postgres.url())).await.unwrap();
    let client = connect(&postgres.url()).await;
    queue.define(&Definition::new("work")).await.unwrap();
    let every_minute =
        NewTrigger::schedule("every minute", "* * * * *", "work").misfire(Misfire::FireAll).misfire_max(1000);
    let mut firsts = Vec::new();
    for _ in 0..10 {
        let trigger = queue.create_trigger(DEFAULT_TENANT, &every_minute, "tester").await.unwrap();
        firsts.push((trigger.id, trigger.next_due_at.unwrap()));
    }
    let mut workers: Vec<WorkerProcess> = Vec::new();
    for _ in 0..3 {
        workers.push(fleet.spawn(&postgres.url(), &[]).await);
    }

    for round in 1..=5 {
        let frozen = workers.remove(0);
        frozen.signal(Signal::STOP);
        clock.set(round * 10);
        // The one that is probably working dies in the middle of it; another replaces it.
        let before = number(&client, "select count(*) from windlass.fire").await;
        eventually("a dispatcher is working", async || {
            number(&client, "select count(*) from windlass.fire").await > before
        })
        .await;
        edit_all(&queue, &firsts, round).await;
        workers.remove(0).kill().await;
        workers.push(fleet.spawn(&postgres.url(), &[]).await);
        edit_all(&queue, &firsts, round + 100).await;
        all_is_decided(&client).await;
        // It resumes with decisions that are long outdated.
        frozen.signal(Signal::CONT);
        workers.push(frozen);
    }
    let reached = fires(&client).await;
    assert!(reached.len() >= 500, "{}", reached.len());

    // The clock is set back half an hour and forward again: fired instants are not fired a second time.
    clock.set(20);
    let event = queue.emit(&windlass::events::NewEvent::new("clock.went.back")).await.unwrap();
    eventually("the keepers continue", async || {
        !queue.event(DEFAULT_TENANT, event.id).await.unwrap().unwrap().is_pending
    })
    .await;
    assert_eq!(fires(&client).await.len(), reached.len());
    clock.set(55);
    all_is_decided(&client).await;

    for worker in workers {
        worker.kill().await;
    }
    let now: Timestamp = client.query_one("select clock_timestamp()", &[]).await.unwrap().get(0);
    let every_minute = Schedule::new("* * * * *", "UTC").unwrap();
    let fired = fires(&client).await;
    let last = fired.iter().map(|(_, due)| *due).max().unwrap();
    assert!(last > now - SignedDuration::from_secs(90), "it has caught up");
    let expected: BTreeSet<(Uuid, Timestamp)> = firsts
        .iter()
        .flat_map(|&(id, first)| {
            every_minute
                .due_in(first - SignedDuration::from_secs(1), last)
                .map(move |due| (id, due))
                .collect::<Vec<_>>()
        })
        .collect();
    let set: BTreeSet<_> = fired.iter().copied().collect();
    // The minute may have changed for some of the triggers and not yet for others.
    let missing: Vec<_> = expected.difference(&set).filter(|(_, due)| *due < last).collect();
    assert!(missing.is_empty() && set.is_subset(&expected), "missing {missing:?}");
    assert_eq!(set.len(), fired.len(), "no instant twice");
    let jobs = "select count(*) from windlass.job b where b.source = 3";
    assert_eq!(
        number(&client, jobs).await,
        i64::try_from(fired.len()).unwrap(),
        "one job each, and no other"
    );
    let skipped = "select count(*) from windlass.fire where outcome <> 'fired'";
    assert_eq!(number(&client, skipped).await, 0);
    // Every job is of the generation that was current: its payload contains the edit after which it was created.
    let generations = "select count(distinct generation) from windlass.fire";
    assert!(number(&client, generations).await > 5, "edits happened between the fires");
    let foreign = "select count(*) from windlass.fire f join windlass.job b on b.id = f.job_id
                    where (b.payload ->> 'generation')::integer is distinct from nullif(f.generation, 1)";
    assert_eq!(number(&client, foreign).await, 0, "none of an older generation");
    postgres.stop().await.unwrap();
}

/// Writes the number of the edit into every payload, without a change of the times.
async fn edit_all(queue: &Queue, triggers: &[(Uuid, Timestamp)], round: i64) {
    for (id, _) in triggers {
        let old = queue.trigger(DEFAULT_TENANT, *id).await.unwrap().unwrap();
        let edit =
            json!({"label": round.to_string(), "payload_template": {"generation": old.generation + 1}});
        let edit = serde_json::from_value(edit).unwrap();
        queue.update_trigger(DEFAULT_TENANT, *id, Some(old.generation), &edit, "editor").await.unwrap();
    }
}

async fn all_is_decided(client: &Client) {
    let open = "select count(*) from windlass.job_triggers where next_due_at <= clock_timestamp()";
    eventually("nothing is overdue", async || number(client, open).await == 0).await;
}

async fn fires(client: &Client) -> Vec<(Uuid, Timestamp)> {
    let rows = client.query("select trigger_id, due_at from windlass.fire", &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}
