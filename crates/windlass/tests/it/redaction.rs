//! What a definition hides: in the words of its runs, and in its payloads where others see them.

use serde_json::{Value, json};
use windlass::admin::{Actor, Reach};
use windlass::events::{EventFilter, NewEvent};
use windlass::job::{Filter, LogPosition};
use windlass::redact::{PLACEHOLDER, Redaction};
use windlass::{Context, DEFAULT_TENANT, Definition, Done, Failure, Handler, NewJob};
use windlass_testing::TestQueue;

use crate::support::{everything, until, worker};

struct Careless;

windlass_testing::payload!(CarelessArgs(Value) = "careless");

impl Handler for Careless {
    type Args = CarelessArgs;

    async fn run(&self, job: &Context, CarelessArgs(args): CarelessArgs) -> Result<Done, Failure> {
        let said = format!(
            "{} and {} and 4111-1111-1111-1111",
            args["pin"].as_str().unwrap(),
            args["password"].as_str().unwrap()
        );
        job.progress(1.0, &said);
        job.log(&said);
        match args["fails"].as_bool() {
            Some(true) => Err(Failure::permanent(said)),
            _ => Ok(Done::new().result(&json!({"said": said}))),
        }
    }

    fn definition(&self) -> Definition {
        Definition::of::<CarelessArgs>()
            .redaction(Redaction::new().expression(r"\d{4}-\d{4}-\d{4}-\d{4}").key("pin"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_keeps_its_definitions_secrets_and_its_payloads() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let worker = worker(&queue).handler(Careless).start().await.unwrap();
    let hidden = "[redacted] and [redacted] and [redacted]";
    for fails in [false, true] {
        let payload = json!({"pin": "123456", "password": "hunter22", "fails": fails, "city": "Bonn"});
        let id = queue.enqueue(&NewJob::new("careless").payload(&payload)).await.unwrap().id;
        let row = until(&client, id, if fails { "failed" } else { "succeeded" }).await;
        assert_eq!(row["progress_message"], hidden);
        assert_eq!(if fails { &row["last_error"] } else { &row["result"]["said"] }, hidden);
        let log = queue.read_log(DEFAULT_TENANT, id, LogPosition::default()).await.unwrap();
        assert_eq!(log.chunks[0].text, format!("{hidden}\n"));

        // Others see the payload without them; the application itself has it whole.
        let shown = json!({"pin": PLACEHOLDER, "password": PLACEHOLDER, "fails": fails, "city": "Bonn"});
        let looking = queue.look(Reach::Tenant(DEFAULT_TENANT)).await.unwrap();
        assert_eq!(looking.job(DEFAULT_TENANT, id).await.unwrap().unwrap().payload, shown);
        let page = looking.list(&Filter::new(DEFAULT_TENANT).ids([id])).await.unwrap();
        assert_eq!(page.jobs[0].payload, shown);
        looking.end().await.unwrap();
        assert_eq!(queue.job(DEFAULT_TENANT, id).await.unwrap().unwrap().payload, payload);
    }
    client.batch_execute("update windlass.job set payload = '{}'").await.unwrap();
    let everything = everything(&client).await;
    for secret in ["123456", "hunter22", "4111-1111"] {
        assert!(!everything.contains(secret), "{secret} was stored");
    }
    worker.stop().await.unwrap();
}

/// Somebody copies a job from where it is shown.
#[tokio::test]
async fn a_placeholder_is_not_taken_for_a_secret() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("plain")).await.unwrap();
    let actor = Actor::new("ada");
    let copied = NewJob::new("plain").payload(&json!({"to": {"api_key": PLACEHOLDER}}));
    let refused = queue.enqueue_as(DEFAULT_TENANT, &actor, &copied).await.unwrap_err().to_string();
    assert!(refused.starts_with("payload/to/api_key: is [redacted], which stands for"), "{refused}");
    assert!(queue.check_job(&copied).await.is_err());
    let note = NewJob::new("plain").payload(&json!({"note": PLACEHOLDER}));
    queue.check_job(&note).await.unwrap();
}

#[tokio::test]
async fn events_are_shown_without_the_texts_under_telling_keys() {
    let queue = TestQueue::create().await;
    let event = NewEvent::new("user.made").payload(&json!({"password": "hunter22", "name": "zoe"}));
    let id = queue.emit(&event).await.unwrap().id;
    let shown = json!({"password": PLACEHOLDER, "name": "zoe"});
    assert_eq!(queue.event(DEFAULT_TENANT, id).await.unwrap().unwrap().payload, shown);
    assert_eq!(queue.events(DEFAULT_TENANT, &EventFilter::default()).await.unwrap()[0].payload, shown);
}

#[tokio::test]
async fn a_definitions_rules_are_checked_where_they_come_in() {
    let queue = TestQueue::create().await;
    let bad = Redaction::new().expression("(");
    let refused = queue.define(&Definition::new("x").redaction(bad)).await.unwrap_err().to_string();
    assert!(refused.starts_with("redaction/expressions/0: regex parse error"), "{refused}");
}
