//! The same objects with different texts: everything with a field that a user fills.

use serde_json::json;
use uuid::Uuid;
use windlass::job::State;
use windlass::schedule::NewTrigger;
use windlass::{Definition, NewJob};
use windlass_server::auth::Role;
use windlass_testing::eventually;

use crate::process::browser::world::{PROVIDER, World};

/// The objects of one tenant, one of each per text.
pub(super) struct Filled {
    pub(super) canceled: Vec<Uuid>,
    pub(super) dead: Vec<Uuid>,
    pub(super) given: Vec<Uuid>,
    pub(super) triggers: Vec<Uuid>,
}

/// Per text: a canceled job that contains it in every field, one that failed with it, one that returned it as its result, a
/// trigger, a token and a member.
pub(super) async fn fill(world: &World, tenant: Uuid, texts: &[String]) -> Filled {
    let queue = &world.server.queue;
    queue.define(&Definition::new("unserved")).await.unwrap();
    let admin = world.server.client(tenant, Role::TenantAdmin).await;
    let database = queue.client().await;
    let mut filled =
        Filled { canceled: Vec::new(), dead: Vec::new(), given: Vec::new(), triggers: Vec::new() };
    for (number, text) in texts.iter().enumerate() {
        let payload = json!({text.as_str(): [text, {"nested": text}]});
        let job = NewJob::new("unserved").tenant(tenant).payload(&payload).tag(text).subject(text, text);
        let job = job.correlation_id(text).dedupe_key(text);
        let id = queue.enqueue(&job).await.unwrap().id;
        queue.cancel(tenant, id).await.unwrap();
        filled.canceled.push(id);
        for (verb, key, ids) in [
            ("say", "recompute-zeroshot-tags", &mut filled.dead),
            ("give", "sync-dropbox", &mut filled.given),
        ] {
            let payload = json!({"provider_id": PROVIDER, "path_prefix": format!("/{verb} {text}")});
            ids.push(queue.enqueue(&NewJob::new(key).tenant(tenant).payload(&payload)).await.unwrap().id);
        }
        // Two braces would start a placeholder, and an invalid name in it is rejected.
        let plain = text.replace("{{", "{ {");
        let trigger = NewTrigger::event(on_one_line(text), "provider.folder.updated", "unserved")
            .payload_template(json!({"a": plain, plain.as_str(): [plain]}));
        filled.triggers.push(queue.create_trigger(tenant, &trigger, text).await.unwrap().id);
        admin.post("/api/v1/admin/tokens", &json!({"name": text, "role": "viewer"})).await.expect(201);
        // Of a text, an address may contain all but spaces, a second @ and invisible characters.
        let address: String =
            text.chars().filter(|c| (c.is_ascii_graphic() && *c != '@') || c.is_alphanumeric()).collect();
        let person = world.server.member(tenant, &format!("{address}{number}@{tenant}.test"), "viewer").await;
        let named = "update windlass.users set name = $2 where id = $1";
        let name = windlass::internals::text::storable(text.as_bytes(), 1000);
        database.execute(named, &[&person, &name]).await.unwrap();
        let invited = json!({"email": format!("{address}{number}@{tenant}.invited.test"), "role": "viewer"});
        admin.post("/api/v1/admin/invitations", &invited).await.expect(201);
    }
    for (ids, state) in [(&filled.dead, State::DeadLetter), (&filled.given, State::Succeeded)] {
        for id in ids {
            eventually(&format!("{id} is {state}"), async || {
                queue.job(tenant, *id).await.unwrap().is_some_and(|job| job.status == state)
            })
            .await;
        }
    }
    // They were run by workers with their own names.
    let client = queue.client().await;
    let workers = "insert into windlass.job_workers (worker_id, hostname, version, queues, definition_keys, started_at, last_seen_at, lease_expires_at, lease_seconds, running_count)
        select t || n, t, t, array[t], array[t], now(), now(), now() + interval '1 hour', 3600, 1 from unnest($1::text[]) with ordinality w (t, n)";
    client.execute(workers, &[&texts]).await.unwrap();
    let held = "update windlass.history h set worker = w.id from unnest($1::uuid[], $2::text[]) with ordinality j (id, t, n)
        join windlass.job_workers w on w.worker_id = j.t || j.n where h.tenant_id = $3 and h.job_id = j.id";
    client.execute(held, &[&filled.dead, &texts, &tenant]).await.unwrap();
    filled
}

/// As much of it as a label may contain.
fn on_one_line(text: &str) -> String {
    let mut line: String = text.chars().filter(|letter| !letter.is_control()).collect();
    line.truncate((0..=line.len().min(200)).rev().find(|&end| line.is_char_boundary(end)).unwrap());
    if line.trim().is_empty() { "nothing".to_owned() } else { line }
}

/// Objects that belong to no tenant.
pub(super) struct Everyones {
    pub(super) definitions: Vec<Uuid>,
    pub(super) tenants: Vec<Uuid>,
}

/// Per text: a definition with it in its description and throughout its schema, and a tenant of that name.
pub(super) async fn fill_everyone(world: &World, set: &str, texts: &[String]) -> Everyones {
    let queue = &world.server.queue;
    let mut made = Everyones { definitions: Vec::new(), tenants: Vec::new() };
    for (number, text) in texts.iter().enumerate() {
        let key = format!("{set}-{number}");
        // Postgres sorts shorter names first, and the fields of all forms must have the same order.
        let long = format!("{text}, the longest of all names");
        let schema = json!({"type": "object", "title": text, "description": text, "properties": {
            "text": {"type": "string", "title": text, "description": text, "default": text},
            "choice": {"type": "string", "title": text, "enum": [text, "other"]},
            long: {"type": "integer", "title": text, "description": text},
        }});
        queue.define(&Definition::new(&key).description(text).arg_schema(schema)).await.unwrap();
        made.definitions.push(world.definition_id(&key).await);
        made.tenants.push(queue.ensure_tenant(&key, text, 1).await.unwrap());
    }
    made
}

/// The progress message of a running job.
pub(super) async fn report_progress(world: &World, job: Uuid, text: &str) {
    let progress = "update windlass.progress set message = $2, percent = 40 where job_id = $1";
    let rows = world.server.queue.client().await.execute(progress, &[&job, &text]).await.unwrap();
    assert_eq!(rows, 1);
}

/// As written in an address or in the body of a form.
pub(super) fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
