//! Who can connect to the embedded Postgres, where every connection is a superuser.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use tokio_postgres::NoTls;
use windlass::setup::embedded::Postgres;
use windlass_testing::eventually;

use super::scratch::{NOBODY, Scratch, is_root, single};

/// Another user reaches neither the socket nor the files, and there is no other entry point.
#[tokio::test]
async fn socket_and_files_belong_to_the_owner_and_no_port_listens() {
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

/// Tested as another user, which only root can. Otherwise only the test above applies.
#[tokio::test]
async fn another_local_user_cannot_connect() {
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

/// Even a server that was configured to listen accepts connections only through the socket.
#[tokio::test]
async fn a_listening_server_rejects_every_tcp_connection() {
    let scratch = Scratch::new();
    let (mut options, tcp) = (scratch.options(), listening());
    options.settings = tcp.settings.clone();
    let postgres = Postgres::start(&options).await.unwrap();
    let refused = tcp.refusal().await.unwrap();
    assert!(refused.contains("no pg_hba.conf entry"), "{refused}");
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn a_server_left_open_by_an_older_version_is_secured() {
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
    /// The error of a rejected connection, if it is rejected.
    async fn refusal(&self) -> Option<String> {
        let refused = tokio_postgres::connect(&self.url, NoTls).await.err()?;
        Some(refused.as_db_error().map_or_else(|| refused.to_string(), |error| error.message().to_owned()))
    }
}
