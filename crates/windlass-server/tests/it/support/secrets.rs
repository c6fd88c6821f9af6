//! Every secret that a test issues or uses, and the search for them afterwards: in all rows of its database, and in all that it
//! logged. Each [`super::TestServer`] is searched when it goes, so the whole suite is one test of this.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Mutex, Once, PoisonError};

use serde_json::Value;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

static ISSUED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static LOGGED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Shorter ones, which tests make up to be refused, are words that stand everywhere.
const SHORTEST: usize = 12;

/// Remembers a secret; of a token, the part that nobody may know.
pub(crate) fn issued(secret: &str) {
    // Of a link's secret the whole: it may have that letter too.
    let hidden =
        if secret.starts_with("wl_") { secret.rsplit('_').next().unwrap_or_default() } else { secret };
    if hidden.len() >= SHORTEST {
        ISSUED.lock().unwrap_or_else(PoisonError::into_inner).insert(hidden.to_owned());
    }
}

/// Remembers what is secret in a request or an answer: what its own fields say, not what a payload happens to hold.
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

/// Keeps all that is logged from now on.
pub(super) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Ours, not those of the hand that types tokens into a browser.
        let ours =
            Targets::new().with_default(LevelFilter::DEBUG).with_target("thirtyfour", LevelFilter::OFF);
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(|| Logged);
        // A test that has a subscriber of its own keeps it, and looks at its logs itself.
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

/// The lines logged so far that hold this text.
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
    let mut dump = String::new();
    for row in database.query(tables, &[]).await.unwrap() {
        let query = format!(
            "select coalesce(string_agg(t::text, E'\\n'), '') from windlass.{} t",
            row.get::<_, String>(0)
        );
        dump.push_str(&database.query_one(&query, &[]).await.unwrap().get::<_, String>(0));
    }
    dump
}
