//! An application that enqueues and emits in its own transactions, which it commits, rolls back, or leaves when its connection breaks.

use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::types::Json;
use uuid::Uuid;

use super::intent::{Author, Intent};
use super::{CALL_LIMIT, Callers};
use crate::Result;
use crate::database::connect;
use crate::soak::installation::EVENT_NAME;
use crate::soak::ledger::Fact;

pub(super) async fn transactions(callers: Callers, mut author: Author) {
    let url = callers.installation.cluster.url(callers.installation.sql.port);
    let mut client: Option<Client> = None;
    while !callers.is_stopped() {
        if callers.pace.turn(1).await == 0 {
            continue;
        }
        let _running = callers.site.gate.read().await;
        let Some(open) = client.take() else {
            client = tokio::time::timeout(CALL_LIMIT, connect(&url)).await.ok().and_then(Result::ok);
            if client.is_none() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            continue;
        };
        let work = async {
            if author.chance(0.1) {
                emit(&open, &mut author).await
            } else {
                enqueue(&open, &mut author).await
            }
        };
        // After an error the connection is not used again: dropping it rolls back.
        if matches!(tokio::time::timeout(CALL_LIMIT, work).await, Ok(Ok(()))) {
            client = Some(open);
        }
    }
}

async fn enqueue(client: &Client, author: &mut Author) -> Result<()> {
    let intent = author.intent();
    author.note_sent(&intent, "sql");
    let placed = place(client, &intent).await;
    let (job, is_duplicate) = match placed {
        Ok(placed) => placed,
        Err(error) => {
            // There was no commit, so it does not exist for certain.
            author.note_refused(&intent, &error);
            return Err(error.into());
        }
    };
    if author.chance(0.2) {
        author.note_refused(&intent, "rolled back");
        // If this fails, the server rolls back when the connection ends.
        return Ok(client.batch_execute("rollback").await?);
    }
    if author.chance(0.05) {
        author.note_refused(&intent, "left open");
        return Err("the application ends within its transaction".into());
    }
    client.batch_execute("commit").await?;
    author.note_acked(&intent, job, is_duplicate);
    Ok(())
}

async fn place(client: &Client, intent: &Intent) -> Result<(Uuid, bool), tokio_postgres::Error> {
    begin(client, intent.tenant).await?;
    let number = i64::try_from(intent.number).unwrap_or(i64::MAX);
    client.execute("insert into soak.sent (intent) values ($1)", &[&number]).await?;
    let statement = "select id, is_duplicate from windlass.enqueue_many($1, array[$2::jsonb], options => $3)";
    let (payload, options) = (Json(&intent.payload), Json(intent.sql_options()));
    let row = client.query_one(statement, &[&intent.definition, &payload, &options]).await?;
    Ok((row.get(0), row.get(1)))
}

async fn emit(client: &Client, author: &mut Author) -> Result<()> {
    let event = author.site.next_event();
    let tenant = author.tenants[usize::from(author.chance(0.5))];
    author.site.ledger.note(Fact::Emitted { event, tenant });
    let emitted = async {
        begin(client, tenant).await?;
        let number = i64::try_from(event).unwrap_or(i64::MAX);
        client.execute("insert into soak.emitted (event) values ($1)", &[&number]).await?;
        let payload = Json(serde_json::json!({"n": event}));
        client.execute("select id from windlass.emit($1, $2)", &[&EVENT_NAME, &payload]).await
    };
    if let Err(error) = emitted.await {
        author.site.ledger.note(Fact::EmitRefused { event });
        return Err(error.into());
    }
    if author.chance(0.2) {
        author.site.ledger.note(Fact::EmitRefused { event });
        return Ok(client.batch_execute("rollback").await?);
    }
    client.batch_execute("commit").await?;
    author.site.ledger.note(Fact::EmitAcked { event });
    Ok(())
}

async fn begin(client: &Client, tenant: Uuid) -> Result<(), tokio_postgres::Error> {
    client.batch_execute("begin").await?;
    let tenant = tenant.to_string();
    client.execute("select set_config('windlass.tenant_id', $1, true)", &[&tenant]).await?;
    Ok(())
}
