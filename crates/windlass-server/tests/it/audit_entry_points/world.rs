//! The objects of the actions, and the rows that the actions left in the audit trail.

use std::collections::BTreeSet;
use std::sync::Mutex;

use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;
use windlass::admin::{Action, Actor, INSTALLATION, Reach};
use windlass::events::NewEvent;
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass::schedule::NewTrigger;
use windlass::{DEFAULT_TENANT, Definition, NewJob};
use windlass_server::auth::{Role, Secret, session};
use windlass_server::http::{Route, table};
use windlass_testing::eventually;

use crate::support::{Answer, Client, TestServer};

/// One row of the audit trail.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) action: String,
    pub(super) target: String,
    tenant: Uuid,
    outcome: String,
    before: Option<Value>,
    after: Option<Value>,
}

impl Row {
    /// What must be the same for every entry point: the trail that has the row, the outcome, and the state before and after. Ids,
    /// names and instants differ from object to object, and the caller from entry point to entry point.
    pub(super) fn comparable(&self) -> Value {
        let trail = match self.tenant {
            INSTALLATION => "installation",
            DEFAULT_TENANT => "the tenant of the call",
            _ => "another tenant",
        };
        let mut all = json!([trail, self.outcome, self.before, self.after]);
        strip(&mut all);
        all
    }
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match name.as_str() {
                    "created_by" | "updated_by" => *member = json!("caller"),
                    _ => strip(member),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::String(text) if text.parse::<Timestamp>().is_ok() => *text = "instant".to_owned(),
        Value::String(text) => {
            let is_of_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
            let words = text.split_inclusive(|letter: char| !is_of_word(letter)).map(|part| {
                let word = part.trim_end_matches(|letter: char| !is_of_word(letter));
                format!("{}{}", without_id(word), &part[word.len()..])
            });
            *text = words.collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A name of [`new_name`] and the id of an object are different each time.
fn without_id(word: &str) -> &str {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match word.len() {
        33 if word.starts_with('n') && is_hex(&word[1..]) => "name",
        36 if word.parse::<Uuid>().is_ok() => "id",
        16 if is_hex(word) => "id",
        32 if is_hex(word) => "version",
        _ => word,
    }
}

pub(super) struct World {
    pub(super) server: TestServer,
    /// A super-admin's browser.
    pub(super) browser: Client,
    /// An event that fails at a trigger on every retry.
    pub(super) failed: (Uuid, Uuid),
    database: tokio_postgres::Client,
    routes: Vec<Route>,
    mark: Mutex<i64>,
    performed: Mutex<BTreeSet<String>>,
    commands: Mutex<BTreeSet<String>>,
}

impl World {
    pub(super) async fn create() -> Self {
        let server = TestServer::start().await;
        server.queue.define(&Definition::new("a")).await.unwrap();
        let token = Secret::new(server.admin.token.clone().unwrap());
        let cookie =
            session::sign_in_with_token(&server.app, &token, &session::From::default()).await.unwrap();
        let browser = server.cookie_browser(cookie.to_str().unwrap());
        let failed = failed_event(&server).await;
        let database = server.queue.client().await;
        let (mark, performed, commands) = (Mutex::new(0), Mutex::default(), Mutex::default());
        Self { server, browser, failed, database, routes: table(), mark, performed, commands }
    }

    /// Rows after this mark belong to the action itself.
    pub(super) async fn mark(&self) {
        let query = "select coalesce(max(id), 0) from windlass.audit";
        *self.mark.lock().unwrap() = self.database.query_one(query, &[]).await.unwrap().get(0);
    }

    /// The rows since the mark.
    pub(super) async fn rows(&self) -> Vec<Row> {
        let mark = *self.mark.lock().unwrap();
        let query = "select action, target, tenant_id, outcome, before, after from windlass.audit where id > $1 order by id";
        let rows = self.database.query(query, &[&mark]).await.unwrap();
        let read = |row: &tokio_postgres::Row| Row {
            action: row.get(0),
            target: row.get(1),
            tenant: row.get(2),
            outcome: row.get(3),
            before: row.get(4),
            after: row.get(5),
        };
        rows.iter().map(read).collect()
    }

    /// Asserts that the last call was recorded like an earlier one of the same action: another way to the same verb.
    pub(super) async fn recorded_like(&self, earlier: &[Row]) {
        let rows = self.rows().await;
        let ([earlier], [row]) = (earlier, &rows[..]) else {
            panic!("not one row each: {earlier:?}, {rows:?}")
        };
        assert_eq!((&row.action, row.comparable()), (&earlier.action, earlier.comparable()));
    }

    /// Notes the command that these words run.
    pub(super) fn note_command(&self, words: &[&str]) {
        let is_part = |word: &&&str| word.bytes().all(|byte| byte.is_ascii_lowercase());
        let words: Vec<&str> = words.iter().take(2).take_while(is_part).copied().collect();
        self.commands.lock().unwrap().insert(words.join(" "));
    }

    /// The commands that ran.
    pub(super) fn commands(&self) -> BTreeSet<String> {
        self.commands.lock().unwrap().clone()
    }

    /// The routes that were called, as `METHOD template`.
    pub(super) fn performed(&self) -> BTreeSet<String> {
        self.performed.lock().unwrap().clone()
    }

    fn note(&self, method: &Method, path: &str) {
        let path = path.split('?').next().unwrap();
        let fits = |template: &str| {
            let (wanted, given): (Vec<&str>, Vec<&str>) =
                (template.split('/').collect(), path.split('/').collect());
            wanted.len() == given.len()
                && wanted.iter().zip(&given).all(|(wanted, given)| wanted.starts_with('{') || wanted == given)
        };
        // An exact path precedes one with a parameter.
        let mut fitting: Vec<&Route> =
            self.routes.iter().filter(|route| route.method == *method && fits(route.path)).collect();
        fitting.sort_by_key(|route| route.path.matches('{').count());
        let route = fitting.first().unwrap_or_else(|| panic!("no route for {method} {path}"));
        self.performed.lock().unwrap().insert(format!("{method} {}", route.path));
    }

    /// Marks, and calls the API as a super-admin.
    pub(super) async fn call(&self, method: Method, path: &str, body: Value) -> Value {
        self.call_as(&self.server.admin, method, path, body).await
    }

    pub(super) async fn call_as(&self, client: &Client, method: Method, path: &str, body: Value) -> Value {
        self.mark().await;
        self.note(&method, path);
        let body = (method != Method::DELETE).then_some(&body);
        let response = client.send(method.clone(), path, body).await;
        assert!(response.status.is_success(), "{method} {path}: {response:?}");
        if response.text.is_empty() { Value::Null } else { response.json() }
    }

    /// Marks, and sends a form as a super-admin.
    pub(super) async fn form(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.form_as(&self.browser, path, fields).await
    }

    pub(super) async fn form_as(&self, browser: &Client, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.mark().await;
        self.note(&Method::POST, path);
        let tenant = DEFAULT_TENANT.to_string();
        let mut fields = fields.to_vec();
        fields.push(("acting_for", &tenant));
        let response = browser.form(path, &fields).await;
        assert!(response.status.is_success() || response.status.is_redirection(), "{path}: {response:?}");
        response
    }

    /// Options of the command line that name the server.
    pub(super) fn to_server(&self) -> Vec<String> {
        let token = self.server.admin.token.clone().unwrap();
        ["--server", &self.server.base, "--token", &token].map(str::to_owned).to_vec()
    }

    /// Options of the command line that name the database.
    pub(super) fn to_database(&self) -> Vec<String> {
        ["--database-url", self.server.queue.url()].map(str::to_owned).to_vec()
    }

    pub(super) fn actor() -> Actor {
        let mut actor = Actor::new("tester");
        actor.role = "application".to_owned();
        actor
    }

    pub(super) async fn acting(&self, reach: Reach) -> windlass::admin::Acting {
        self.server.queue.act(reach, &Self::actor()).await.unwrap()
    }

    pub(super) async fn job(&self) -> Uuid {
        self.server.queue.enqueue(&NewJob::new("a")).await.unwrap().id
    }

    /// Makes the only dead letter.
    pub(super) async fn dead_letter(&self) {
        let (_, key) = self.definition().await;
        self.server.queue.enqueue(&NewJob::new(&key).max_attempts(1)).await.unwrap();
        let worker = self.server.client(DEFAULT_TENANT, Role::Worker).await;
        let wanted = json!({"definition_keys": [key], "limit": 1, "wait_seconds": 20});
        let claimed = worker.post("/api/v1/worker/jobs/claim", &wanted).await.expect(200);
        let path = format!("/api/v1/worker/jobs/{}/fail", id_of(&claimed["jobs"][0]));
        let body = json!({"fence": claimed["jobs"][0]["fence"], "error": "e"});
        worker.post(&path, &body).await.expect(200);
    }

    /// A job with its own tag.
    pub(super) async fn tagged(&self) -> (Uuid, String) {
        let tag = new_name();
        (self.server.queue.enqueue(&NewJob::new("a").tag(&tag)).await.unwrap().id, tag)
    }

    pub(super) async fn cancel(&self, job: Uuid) {
        self.server.queue.cancel(DEFAULT_TENANT, job).await.unwrap();
    }

    pub(super) async fn definition(&self) -> (Uuid, String) {
        let key = new_name();
        (self.server.queue.define(&Definition::new(&key)).await.unwrap(), key)
    }

    pub(super) async fn definition_id(&self, key: &str) -> String {
        let query = "select id::text from windlass.job_definitions where key = $1";
        self.database.query_one(query, &[&key]).await.unwrap().get(0)
    }

    /// The id of the newest row of a table.
    pub(super) async fn newest(&self, table: &str) -> String {
        let query = format!("select id::text from windlass.{table} order by created_at desc limit 1");
        self.database.query_one(&query, &[]).await.unwrap().get(0)
    }

    pub(super) async fn tenant(&self) -> Uuid {
        self.server.queue.tenant(&new_name()).await
    }

    pub(super) async fn trigger(&self) -> Uuid {
        let new = NewTrigger::schedule("nightly", "0 2 * * *", "a");
        self.server.queue.create_trigger(DEFAULT_TENANT, &new, "fixture").await.unwrap().id
    }

    /// A person of the default tenant: id and address.
    pub(super) async fn person(&self, role: &str) -> (Uuid, String) {
        let email = format!("{}@example.com", new_name());
        (self.server.member(DEFAULT_TENANT, &email, role).await, email)
    }

    pub(super) async fn token(&self) -> String {
        let body = json!({"name": "t", "role": "viewer"});
        id_of(&self.server.admin.post("/api/v1/admin/tokens", &body).await.expect(201))
    }

    /// An open invitation for an address: its id and its link.
    pub(super) async fn invitation(&self, email: &str) -> (String, String) {
        let body = json!({"email": email, "role": "viewer"});
        let made = self.server.admin.post("/api/v1/admin/invitations", &body).await.expect(201);
        let link = made["link"].as_str().unwrap();
        (id_of(&made), link[link.find("/ui/").unwrap()..].to_owned())
    }

    /// A password reset link.
    pub(super) async fn reset_link(&self, email: &str) -> String {
        let body = json!({"email": email});
        let made = self.server.admin.post("/api/v1/admin/password-resets", &body).await.expect(201);
        let link = made["link"].as_str().unwrap();
        link[link.find("/ui/").unwrap()..].to_owned()
    }

    /// A worker that the action changes.
    pub(super) async fn worker(&self, action: Action) -> String {
        let worker = self.server.client(DEFAULT_TENANT, Role::Worker).await;
        let body = json!({"worker_id": new_name(), "definition_keys": ["a"]});
        let known = worker.post("/api/v1/worker/register", &body).await.expect(200);
        // The workers of all tenants are listed under such names.
        let id = format!("{}@{DEFAULT_TENANT}", known["worker_id"].as_str().unwrap());
        let drain = "insert into windlass.drain_request select id, worker_id from windlass.job_workers where worker_id = $1 and $2";
        self.database.execute(drain, &[&id, &(action == Action::WorkerResume)]).await.unwrap();
        id
    }

    /// A queue that the action changes.
    pub(super) async fn queue(&self, action: Action) -> String {
        let name = new_name();
        let insert = "insert into windlass.queues (name, is_paused) values ($1, $2)";
        self.database.execute(insert, &[&name, &(action == Action::QueueResume)]).await.unwrap();
        name
    }
}

pub(super) fn new_name() -> String {
    format!("n{}", Uuid::now_v7().simple())
}

pub(super) fn id_of(value: &Value) -> String {
    value["id"].as_str().unwrap_or_else(|| panic!("no id: {value}")).to_owned()
}

/// An event whose trigger needs a field that it does not have: event and trigger.
async fn failed_event(server: &TestServer) -> (Uuid, Uuid) {
    let mut new = NewTrigger::event("fails", "some.thing", "a");
    new.payload_template = json!({"path": "{{event.path}}"});
    let trigger = server.queue.create_trigger(DEFAULT_TENANT, &new, "fixture").await.unwrap().id;
    let event = server.queue.emit(&NewEvent::new("some.thing")).await.unwrap().id;
    let keeper = Keeper::new(server.queue.queue().clone(), KeeperSettings::default());
    eventually("the event is dispatched", async || {
        keeper.run_once(Duty::Dispatch).await.unwrap();
        let event = server.queue.event(DEFAULT_TENANT, event).await.unwrap().unwrap();
        event.triggers.iter().any(|trigger| trigger.outcome == "failed")
    })
    .await;
    (event, trigger)
}
