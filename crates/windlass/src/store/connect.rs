//! A connection outside the pool, for migrations and LISTEN, which need a dedicated session.

use std::future::poll_fn;
use std::time::Duration;

use rustls_platform_verifier::ConfigVerifierExt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{Error, Result};

/// Closed on drop: the task that drives the socket is aborted.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// NOTIFY payloads with their channel. Our task always drains them, so the server never has to keep them.
    pub(crate) notifications: mpsc::UnboundedReceiver<(String, String)>,
    driver: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// For the start of a session, after its TCP connection.
const START_WITHIN: Duration = Duration::from_secs(5);

/// The driver's `connect_timeout` ends with the TCP connection. A proxy or pooler can accept that and never respond, so the whole start is
/// limited: the time of every host, and that of one start.
pub(crate) async fn open(config: &Config) -> Result<Connection> {
    let hosts = u32::try_from(config.get_hosts().len().max(1)).unwrap_or(u32::MAX);
    let to_connect = config.get_connect_timeout().copied().unwrap_or(START_WITHIN);
    let within = to_connect.saturating_mul(hosts).saturating_add(START_WITHIN);
    tokio::time::timeout(within, start(config)).await.map_err(|_| Error::unanswered())?
}

async fn start(config: &Config) -> Result<Connection> {
    let (sender, notifications) = mpsc::unbounded_channel();
    let (client, driver) = if is_plain(config) {
        let (client, connection) = config.connect(NoTls).await?;
        (client, tokio::spawn(drive(connection, sender)))
    } else {
        let (client, connection) = config.connect(tls()?).await?;
        (client, tokio::spawn(drive(connection, sender)))
    };
    Ok(Connection { client, notifications, driver })
}

/// Whether this address reaches the server itself. A session of the server keeps the options of its start packet; a
/// pooler refuses or drops them, or returns a session that another client started.
pub(crate) async fn is_direct(config: &Config) -> Result<bool> {
    let mark = uuid::Uuid::new_v4().simple().to_string();
    let mut marked = config.clone();
    let given = config.get_options().unwrap_or_default();
    marked.options(format!("{given} -c windlass.session={mark}"));
    let Ok(connection) = open(&marked).await else {
        open(config).await?;
        return Ok(false);
    };
    let asking = connection.client.query_typed("select current_setting('windlass.session', true)", &[]);
    let rows = tokio::time::timeout(START_WITHIN, asking).await.map_err(|_| Error::unanswered())??;
    Ok(rows.first().and_then(|row| row.get::<_, Option<String>>(0)).is_some_and(|found| found == mark))
}

async fn drive<S, T>(
    mut connection: tokio_postgres::Connection<S, T>,
    sender: mpsc::UnboundedSender<(String, String)>,
) where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        match message {
            Ok(AsyncMessage::Notification(note)) => {
                // If the receiver was dropped, the connection is about to be dropped too.
                let _ = sender.send((note.channel().to_owned(), note.payload().to_owned()));
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "a database connection ended");
                return;
            }
        }
    }
}

/// Whether these connections have no TLS: Postgres has none on a Unix socket. To load the trusted certificates of the system takes more
/// time than to connect, so it is done only for connections that can use them.
pub(crate) fn is_plain(config: &Config) -> bool {
    let hosts = config.get_hosts();
    let is_local = config.get_hostaddrs().is_empty()
        && !hosts.is_empty()
        && hosts.iter().all(|host| matches!(host, Host::Unix(_)));
    match config.get_ssl_mode() {
        SslMode::Disable => true,
        SslMode::Prefer => is_local,
        _ => false,
    }
}

pub(crate) fn tls() -> Result<MakeRustlsConnect> {
    // The first provider that is installed in the process is used; the error of a second installation can be ignored.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let config = rustls::ClientConfig::with_platform_verifier().map_err(|error| Error::Settings {
        message: format!("cannot load the trusted certificates of the system: {error}"),
    })?;
    Ok(MakeRustlsConnect::new(config))
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn only_a_socket_or_disabled_tls_is_plain() {
        for (url, expected) in [
            ("postgresql://ada@/app?host=/run/pg", true),
            ("host=/run/pg,/run/other dbname=app", true),
            ("postgresql://db/app?sslmode=disable", true),
            ("postgresql://db/app", false),
            ("host=/run/pg,db dbname=app", false),
            ("hostaddr=127.0.0.1 dbname=app", false),
            ("host=/run/pg sslmode=require", false),
        ] {
            assert_eq!(is_plain(&url.parse().unwrap()), expected, "{url}");
        }
    }
}
