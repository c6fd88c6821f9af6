//! Examines a database that a queue lives on: what endangers durability, what has drifted, what is stuck, each with what
//! to do about it. It reads and changes nothing, and it works on a database that this release could not use, because that
//! is when it is needed.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use crate::error::Result;
use crate::model::doctor::facts::DatabaseFacts;
use crate::model::doctor::{Finding, judge};
use crate::setup::migrate;
use crate::store::database::Settings;
use crate::store::{connect, doctor as ask};

/// How long a word sent to ourselves may take before LISTEN counts as lost.
const ECHO_WITHIN: Duration = Duration::from_secs(3);

/// A database may have names as its default that come before Postgres's own, and an operator must not run them.
const PLAIN_NAMES: &str = "set search_path = pg_catalog, pg_temp";

/// Examines the database that the settings name, over its direct address.
pub async fn examine(settings: &Settings) -> Result<Vec<Finding>> {
    look(settings).await.map_err(|error| error.needing("windlass_operator"))
}

async fn look(settings: &Settings) -> Result<Vec<Finding>> {
    let connection = connect::open(&settings.direct).await?;
    let client = &connection.client;
    client.batch_execute(PLAIN_NAMES).await?;
    let asked = Timestamp::now().as_millisecond();
    let server = ask::server(client).await?;
    let answered = Timestamp::now().as_millisecond();
    let has_schema = server.has_schema;
    let mut facts = DatabaseFacts {
        clock_off_ms: server.clock_ms - (asked + answered) / 2,
        server,
        holders: ask::holders(client).await?,
        is_pooled: !connect::is_direct(&settings.config).await?,
        is_heard: is_heard(settings).await?,
        ..DatabaseFacts::default()
    };
    if has_schema {
        facts.expected = migrate::expected();
        facts.installed = ask::migrations(client).await?;
        let ours = migrate::functions();
        let bodies = ask::functions(client).await?;
        facts.altered_functions = bodies
            .into_iter()
            .filter(|(_, body)| !ours.contains(body.as_str()))
            .map(|(name, _)| name)
            .collect();
        facts.damage = ask::damage(client).await?;
        facts.tables = ask::tables(client).await?;
        // A schema of another release may lack what these read; that it is another's is a finding of its own.
        if facts.is_our_schema() {
            ask::take_operator(client).await?;
            facts.workers = ask::workers(client).await?;
            facts.stuck = ask::stuck(client).await?;
            facts.troubles = ask::troubles(client).await?;
            facts.listeners = ask::listeners(client).await?;
        }
    }
    Ok(judge(&facts))
}

/// Whether a session on the direct address hears what is said: behind a transaction pooler it does not.
async fn is_heard(settings: &Settings) -> Result<bool> {
    let mut connection = connect::open(&settings.direct).await?;
    let own = format!("windlass_{}", Uuid::new_v4().simple());
    connection.client.batch_execute(&format!("listen {own}")).await?;
    connect::open(&settings.direct).await?.client.batch_execute(&format!("notify {own}")).await?;
    Ok(tokio::time::timeout(ECHO_WITHIN, connection.notifications.recv())
        .await
        .is_ok_and(|heard| heard.is_some()))
}
