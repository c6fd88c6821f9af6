//! Every secret that a test issues or uses, and the search for them afterwards: in all rows of its database, and in all log
//! lines. Each [`super::TestServer`] is searched when it is dropped, so the whole suite tests this.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Mutex, Once, PoisonError};

use serde_json::Value;
use tokio_postgres::SimpleQueryMessage;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

static ISSUED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static LOGGED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Shorter ones, which tests invent to be rejected, are common words.
const MIN_LENGTH: usize = 12;

/// Records a secret; of a token, the secret part.
pub(crate) fn issued(secret: &str) {
    // Of a link's secret the whole: it may contain that letter too.
    let hidden =
        if secret.starts_with("wl_") { secret.rsplit('_').next().unwrap_or_default() } else { secret };
    if hidden.len() >= MIN_LENGTH {
        ISSUED.lock().unwrap_or_else(PoisonError::into_inner).insert(hidden.to_owned());
    }
}

/// Records the secrets of a request or a response: those of its own fields, not those that a payload happens to contain.
pub(super) fn noticed(body: &Value) {
    for name in ["token", "password", "current_password", "new_password"] {
        if let Some(secret) = body[name].as_str() {
            issued(secret);
        }
    }
    if let Some(secret) = body["link"].as_str().and_then(|link| link.rsplit('/').next()) {
        issued(secret);
    }
}

/// Records all log lines from now on.
pub(super) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Ours, not those of the browser driver that types tokens.
        let ours =
            Targets::new().with_default(LevelFilter::DEBUG).with_target("thirtyfour", LevelFilter::OFF);
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(|| Logged);
        // A test with its own subscriber keeps it, and checks its logs itself.
        let _ = tracing_subscriber::registry().with(layer).with(ours).try_init();
    });
}

struct Logged;

impl Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOGGED.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The logged lines so far that contain this text.
pub(crate) fn logged(text: &str) -> Vec<String> {
    let logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
    let logged = String::from_utf8_lossy(&logged);
    logged.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}

/// Fails if a secret is in the database, or was logged.
pub(crate) async fn search(database: &tokio_postgres::Client) {
    let dump = dump(database).await;
    let logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
    let logged = String::from_utf8_lossy(&logged);
    let issued = ISSUED.lock().unwrap_or_else(PoisonError::into_inner);
    for secret in &*issued {
        assert!(!dump.contains(secret), "a secret is in the database: {}…", &secret[..6]);
        assert!(!logged.contains(secret), "a secret is in the logs: {}…", &secret[..6]);
    }
}

/// Every row of every table, as text.
pub(crate) async fn dump(database: &tokio_postgres::Client) -> String {
    let tables = "select c.relname::text from pg_class c where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p')
                     and not c.relispartition";
    let rows_of = |row: &tokio_postgres::Row| {
        format!(
            "select coalesce(string_agg(t::text, E'\\n'), '') from windlass.{} t;",
            row.get::<_, String>(0)
        )
    };
    // One message for all tables: every test with a server ends with this.
    let queries: String = database.query(tables, &[]).await.unwrap().iter().map(rows_of).collect();
    let found = database.simple_query(&queries).await.unwrap();
    let text = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    found.iter().filter_map(text).collect()
}
