//! Who can connect to the embedded Postgres, where everybody who can is a superuser.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use tokio_postgres::NoTls;
use windlass::setup::embedded::Postgres;
use windlass_testing::eventually;

use super::scratch::{NOBODY, Scratch, is_root, single};

/// Whoever is somebody else comes neither to the socket nor to the files, and there is no other way in.
#[tokio::test]
async fn the_socket_and_the_files_are_their_owners_and_nothing_else_listens() {
    let scratch = Scratch::new();
    let postgres = Postgres::start(&scratch.options()).await.unwrap();
    let setting =
        async |name: &str| single(&postgres.url(), &format!("select current_setting('{name}')")).await;
    assert_eq!(setting("listen_addresses").await, "");
    for directory in [setting("unix_socket_directories").await, setting("data_directory").await] {
        let mode = fs::metadata(directory.trim_matches('"')).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{directory} has the mode {mode:o}");
    }
    postgres.stop().await.unwrap();
}

/// Tried as somebody else, which only root can. Everywhere else the test above has to do.
#[tokio::test]
async fn as_root_another_local_user_is_seen_not_to_connect() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let postgres = Postgres::start(&scratch.options()).await.unwrap();
    assert!(Scratch::lets_in(&postgres.url(), None).await);
    let port = single(&postgres.url(), "select current_setting('port')").await;
    assert!(!Scratch::lets_in(&postgres.url(), Some(NOBODY)).await, "through the socket");
    let tcp = format!("postgresql://windlass@127.0.0.1:{port}/postgres?connect_timeout=2");
    assert!(!Scratch::lets_in(&tcp, Some(NOBODY)).await, "through TCP");
    postgres.stop().await.unwrap();
}

/// Even one that somebody made listen lets nobody in without the socket.
#[tokio::test]
async fn a_server_that_listens_refuses_everybody_who_comes_by_tcp() {
    let scratch = Scratch::new();
    let (mut options, tcp) = (scratch.options(), listening());
    options.settings = tcp.settings.clone();
    let postgres = Postgres::start(&options).await.unwrap();
    let refused = tcp.refusal().await.unwrap();
    assert!(refused.contains("no pg_hba.conf entry"), "{refused}");
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn a_server_that_an_older_version_left_open_is_closed() {
    let scratch = Scratch::new();
    let (mut options, tcp) = (scratch.options(), listening());
    options.settings = tcp.settings.clone();
    let older = Postgres::start(&options).await.unwrap();
    let open = "local all all trust\nhost all all 127.0.0.1/32 trust\n";
    fs::write(scratch.data_dir().join("pg_hba.conf"), open).unwrap();
    single(&older.url(), "select pg_reload_conf()::text").await;
    eventually("it is open", async || tcp.refusal().await.is_none()).await;

    let shared = Postgres::start(&scratch.options()).await.unwrap();
    eventually("it is closed", async || tcp.refusal().await.is_some()).await;
    assert_eq!(single(&shared.url(), "select '1'").await, "1");
    older.stop().await.unwrap();
    shared.stop().await.unwrap();
}

struct Listening {
    settings: Vec<(String, String)>,
    url: String,
}

fn listening() -> Listening {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = [("listen_addresses", "127.0.0.1".to_owned()), ("port", port.to_string())];
    Listening {
        settings: settings.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        url: format!("postgresql://windlass@127.0.0.1:{port}/postgres?sslmode=disable"),
    }
}

impl Listening {
    /// Why nobody gets in, if nobody does.
    async fn refusal(&self) -> Option<String> {
        let refused = tokio_postgres::connect(&self.url, NoTls).await.err()?;
        Some(refused.as_db_error().map_or_else(|| refused.to_string(), |error| error.message().to_owned()))
    }
}
