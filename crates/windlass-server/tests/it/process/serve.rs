//! `windlass serve` as a process: TLS, both versions of HTTP, and an orderly shutdown.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use reqwest::Version;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::Child;
use windlass_testing::{TestDatabase, migrated};

use crate::cli::windlass;

/// Created for each test, so that no private key is in the repository.
fn certificate() -> (PathBuf, PathBuf) {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (key, chain) = (place.join("tls-key.pem"), place.join("tls-chain.pem"));
    let made = std::process::Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&chain)
        .output()
        .expect("openssl is in Debian's package of that name");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (key, chain)
}

/// A server of this test with these variables, and its address.
async fn serve(database: &TestDatabase, variables: &[(&str, &str)]) -> (Child, String) {
    let mut command = windlass(&["serve", "--listen", "127.0.0.1:0", "--database-url", database.url()]);
    command.envs(variables.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next_line().await.unwrap().unwrap_or_default();
    let address = first.strip_prefix("ready: ").unwrap_or_else(|| panic!("{first:?} is not the ready line"));
    (child, address.to_owned())
}

fn terminate(child: &Child) {
    let id = i32::try_from(child.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
}

#[tokio::test]
async fn with_a_certificate_it_serves_only_tls_in_both_versions() {
    let database = migrated().await;
    let (key, chain) = certificate();
    let variables =
        [("WINDLASS_TLS_CERTIFICATE", chain.to_str().unwrap()), ("WINDLASS_TLS_KEY", key.to_str().unwrap())];
    let (mut child, address) = serve(&database, &variables).await;
    assert!(address.starts_with("https://127.0.0.1:"), "{address}");
    let trusted = reqwest::Certificate::from_pem(&std::fs::read(&chain).unwrap()).unwrap();
    let client = || reqwest::Client::builder().no_proxy().tls_certs_only([trusted.clone()]);
    let live = format!("{address}/health/live");
    let second = client().build().unwrap().get(&live).send().await.unwrap();
    assert_eq!((second.status().as_u16(), second.version()), (200, Version::HTTP_2), "agreed by ALPN");
    let first = client().http1_only().build().unwrap().get(&live).send().await.unwrap();
    assert_eq!((first.status().as_u16(), first.version()), (200, Version::HTTP_11));
    let stranger = reqwest::Client::builder().no_proxy().build().unwrap();
    assert!(stranger.get(&live).send().await.is_err(), "a self-signed certificate is not trusted");
    let plain = stranger.get(live.replace("https://", "http://")).send().await;
    assert!(plain.is_err(), "no plain HTTP on the same port");

    // A connection that sends nothing is not waited for, and does not block others.
    let mut silent = tokio::net::TcpStream::connect(address.trim_start_matches("https://")).await.unwrap();
    silent.write_all(&[0x16, 0x03]).await.unwrap();
    client().build().unwrap().get(&live).send().await.unwrap();
    terminate(&child);
    assert_eq!(child.wait().await.unwrap().code(), Some(0), "SIGTERM is an orderly end");
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(20), silent.read_to_end(&mut rest)).await.unwrap();
}

#[tokio::test]
async fn an_unreadable_certificate_is_reported_before_startup() {
    let database = migrated().await;
    let (key, _) = certificate();
    let ran = windlass(&["serve", "--listen", "127.0.0.1:0", "--database-url", database.url()])
        .envs([
            ("WINDLASS_TLS_CERTIFICATE", key.to_str().unwrap()),
            ("WINDLASS_TLS_KEY", key.to_str().unwrap()),
        ])
        .output()
        .await
        .unwrap();
    let output = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!((ran.status.code(), output.contains("tls-key.pem")), (Some(2), true), "{output}");
}

/// It runs as long as it is needed: a request that is in progress at the signal is completed.
#[tokio::test]
async fn a_request_in_progress_is_completed_before_shutdown() {
    let database = migrated().await;
    let (mut child, address) = serve(&database, &[]).await;
    let made =
        windlass(&["tokens", "create", "t", "--role", "super_admin", "--database-url", database.url()]);
    let token = String::from_utf8({ made }.output().await.unwrap().stdout).unwrap().trim().to_owned();
    let (blocker, connection) = tokio_postgres::connect(database.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    blocker.batch_execute("begin; lock windlass.job_definitions in access exclusive mode").await.unwrap();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let asked = http.get(format!("{address}/api/v1/jobs/definitions")).bearer_auth(&token).send();
    let asked = tokio::spawn(asked);
    let waiting = "select exists (select from pg_locks l join pg_stat_activity a using (pid)
        where not l.granted and l.relation = 'windlass.job_definitions'::regclass and a.datname = current_database())";
    windlass_testing::eventually("the request waits in the database", async || {
        let (client, connection) =
            tokio_postgres::connect(database.url(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.query_one(waiting, &[]).await.unwrap().get(0)
    })
    .await;
    terminate(&child);
    windlass_testing::eventually("no new connection is accepted", async || {
        tokio::net::TcpStream::connect(address.trim_start_matches("http://")).await.is_err()
    })
    .await;
    blocker.batch_execute("commit").await.unwrap();
    let response = asked.await.unwrap().unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
}
