//! The triggers of the demo: four events of a picture library, each with its trigger, and two schedules, of which one fires every
//! minute.

use serde_json::{Value, json};
use uuid::Uuid;
use windlass::Queue;
use windlass::events::NewEvent;
use windlass::schedule::NewTrigger;

/// Creates those that do not exist yet; existing ones keep their edits.
pub(super) async fn ensure(queue: &Queue, tenant: Uuid) -> windlass::Result<()> {
    let there = queue.triggers(tenant, None, None, 500, 0).await?;
    for new in wanted(tenant) {
        if !there.iter().any(|trigger| trigger.fields.label == new.label) {
            queue.create_trigger(tenant, &new, "demo").await?;
        }
    }
    Ok(())
}

/// Emits the event of this round, as the application would in its own transaction.
pub(super) async fn emit(queue: &Queue, tenant: Uuid, turn: u64) -> windlass::Result<()> {
    let (name, payload) = event_of(tenant, turn);
    queue.emit(&NewEvent::new(name).payload(&payload).tenant(tenant)).await.map(drop)
}

fn event_of(tenant: Uuid, turn: u64) -> (&'static str, Value) {
    match turn % 4 {
        0 => (
            "provider.folder.updated",
            // Few folders: the same one again within two minutes is one sync, and its event shows that.
            json!({"provider_id": provider(tenant, 0), "folder_path": format!("/albums/{}", 2020 + turn / 4 % 6)}),
        ),
        1 => (
            "provider.connection.changed",
            json!({"provider_id": provider(tenant, u128::from(turn / 4 % 3)), "connected": turn / 4 % 3 != 2}),
        ),
        // Every third list comes from an older application that omits its labels: the trigger fails, the page shows the reason, and
        // the event can be dispatched again.
        2 if turn / 4 % 3 == 2 => ("list.created", json!({"list_id": turn})),
        2 => ("list.created", json!({"list_id": turn, "labels": ["sunset", "harbour", "snow"]})),
        _ => ("images.ingest.completed", json!({"count": 10 + turn % 90, "model": "siglip"})),
    }
}

fn provider(tenant: Uuid, number: u128) -> Uuid {
    Uuid::from_u128(tenant.as_u128() ^ number)
}

fn wanted(tenant: Uuid) -> [NewTrigger; 6] {
    let event = |label: &str, name: &str, key: &str, template: Value| {
        NewTrigger::event(label, name, key).payload_template(template).dedupe_window_seconds(120)
    };
    [
        event(
            "Resync on folder change",
            "provider.folder.updated",
            "sync-dropbox",
            json!({"provider_id": "{{event.provider_id}}", "path_prefix": "{{event.folder_path}}"}),
        ),
        event(
            "Sync new connections",
            "provider.connection.changed",
            "sync-dropbox",
            json!({"provider_id": "{{event.provider_id}}"}),
        )
        .conditions(json!({"connected": true})),
        event(
            "Tag the pictures of a new list",
            "list.created",
            "recompute-zeroshot-tags",
            json!({"labels": "{{event.labels}}"}),
        ),
        event(
            "Tag new pictures",
            "images.ingest.completed",
            "recompute-trained-tags",
            json!({"model": "{{event.model | default(\"siglip\")}}"}),
        ),
        NewTrigger::schedule("Train keyword models every minute", "* * * * *", "train-keyword-models")
            .payload_template(json!({"keywords": 8})),
        NewTrigger::schedule("Nightly provider sync", "0 2 * * *", "sync-dropbox")
            .timezone("America/New_York")
            .payload_template(json!({"provider_id": provider(tenant, 0), "path_prefix": "/"})),
    ]
}
