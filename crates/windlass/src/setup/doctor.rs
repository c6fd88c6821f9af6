//! Examines the database of a queue: risks for durability, schema drift, and stuck jobs, each with advice. It only
//! reads, and it also works on a database that this release could not use, because that is when it is needed.

use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::error::Result;
use crate::model::doctor::catalog::differences;
use crate::model::doctor::facts::{DatabaseFacts, Server};
use crate::model::doctor::{Finding, judge};
use crate::setup::migrate;
use crate::store::database::Settings;
use crate::store::{connect, doctor as ask, install, schema};

/// How long a notification to ourselves may take before LISTEN is considered broken.
const ECHO_WITHIN: Duration = Duration::from_secs(3);

/// The default search path of a database may contain names that precede those of Postgres; an operator must not call
/// them.
const PLAIN_NAMES: &str = "set search_path = pg_catalog, pg_temp; set quote_all_identifiers = off;
    set standard_conforming_strings = on";
/// Another session may hold a lock on any table for as long as its transaction is open, which is a finding.
const BOUNDED: &str = "set lock_timeout = '5s'; set statement_timeout = '60s'";

/// Examines the database of the settings, over its direct URL.
///
/// ```no_run
/// # async fn example() -> windlass::Result<()> {
/// use windlass::Settings;
/// use windlass::setup::{Severity, examine};
///
/// let findings = examine(&Settings::new("postgresql://localhost/app")?).await?;
/// let is_healthy = findings.iter().all(|finding| finding.severity == Severity::Fine);
/// # Ok(())
/// # }
/// ```
pub async fn examine(settings: &Settings) -> Result<Vec<Finding>> {
    look(settings).await.map_err(|error| error.needing("windlass_operator"))
}

async fn look(settings: &Settings) -> Result<Vec<Finding>> {
    let connection = connect::open(&settings.direct).await?;
    let client = &connection.client;
    client.batch_execute(PLAIN_NAMES).await?;
    client.batch_execute(BOUNDED).await?;
    let asked = Timestamp::now().as_millisecond();
    let server = ask::server(client).await?;
    let answered = Timestamp::now().as_millisecond();
    let contents = ask::schema_contents(client).await?;
    // Tables and views of another role are not read: they could run that role's code.
    let has_schema = server.has_schema && contents.as_ref().is_some_and(|contents| contents.is_installed);
    let mut facts = DatabaseFacts {
        clock_off_ms: server.clock_ms - (asked + answered) / 2,
        server: Server { has_schema, ..server },
        contents,
        holders: ask::holders(client).await?,
        is_pooled: !connect::is_direct(&settings.config).await?,
        notification_arrives: notification_arrives(settings).await?,
        ..DatabaseFacts::default()
    };
    if has_schema {
        match ask_about_schema(client, &mut facts).await {
            Err(error) if error.is_lock_timeout() => {
                facts.locked_by = Some(migrate::blocker(client).await?);
            }
            asked => asked?,
        }
    }
    Ok(judge(&facts))
}

async fn ask_about_schema(client: &Client, facts: &mut DatabaseFacts) -> Result<()> {
    facts.expected = migrate::expected();
    facts.installed = ask::migrations(client).await?;
    facts.differences = differences(schema::CATALOG, &install::catalog(client).await?);
    facts.damage = ask::damage(client).await?;
    facts.dependents = ask::dependents(client).await?;
    facts.stops_backup = ask::backup(client).await?;
    facts.tables = ask::tables(client).await?;
    // The schema of another release may lack what these read; that it is of another release is a separate finding.
    if facts.is_our_schema() {
        let asked = ask_about_jobs(client, facts).await;
        // Without its owners and privileges a schema cannot be read, which is a finding too.
        asked.or_else(|error| if facts.differences.is_empty() { Err(error) } else { Ok(()) })?;
    }
    Ok(())
}

async fn ask_about_jobs(client: &Client, facts: &mut DatabaseFacts) -> Result<()> {
    ask::take_operator(client).await?;
    facts.workers = ask::workers(client).await?;
    facts.stuck = ask::stuck(client).await?;
    facts.jobs_per_second = ask::jobs_per_second(client).await?;
    facts.problems = ask::problems(client).await?;
    facts.listeners = ask::listeners(client).await?;
    Ok(())
}

/// Whether a session on the direct URL receives notifications; behind a transaction pooler it does not.
async fn notification_arrives(settings: &Settings) -> Result<bool> {
    let mut connection = connect::open(&settings.direct).await?;
    let own = format!("windlass_{}", Uuid::new_v4().simple());
    connection.client.batch_execute(&format!("listen {own}")).await?;
    connect::open(&settings.direct).await?.client.batch_execute(&format!("notify {own}")).await?;
    Ok(tokio::time::timeout(ECHO_WITHIN, connection.notifications.recv())
        .await
        .is_ok_and(|heard| heard.is_some()))
}
