//! The secrets of a definition are hidden: in the output of its runs, and in its payloads where others see them.

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
        let message = format!(
            "{} and {} and 4111-1111-1111-1111",
            args["pin"].as_str().unwrap(),
            args["password"].as_str().unwrap()
        );
        job.progress(1.0, &message);
        job.log(&message);
        match args["fails"].as_bool() {
            Some(true) => Err(Failure::permanent(message)),
            _ => Ok(Done::new().result(&json!({"said": message}))),
        }
    }

    fn definition(&self) -> Definition {
        Definition::of::<CarelessArgs>()
            .redaction(Redaction::new().expression(r"\d{4}-\d{4}-\d{4}-\d{4}").key("pin"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_secrets_of_a_definition_and_its_payloads_are_redacted() {
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

        // Others see the payload without them; the application itself gets the complete one.
        let shown = json!({"pin": PLACEHOLDER, "password": PLACEHOLDER, "fails": fails, "city": "Bonn"});
        let reading = queue.read(Reach::Tenant(DEFAULT_TENANT)).await.unwrap();
        assert_eq!(reading.job(DEFAULT_TENANT, id).await.unwrap().unwrap().payload, shown);
        let page = reading.list(&Filter::new(DEFAULT_TENANT).ids([id])).await.unwrap();
        assert_eq!(page.jobs[0].payload, shown);
        reading.end().await.unwrap();
        assert_eq!(queue.job(DEFAULT_TENANT, id).await.unwrap().unwrap().payload, payload);
    }
    client.batch_execute("update windlass.job set payload = '{}'").await.unwrap();
    let everything = everything(&client).await;
    for secret in ["123456", "hunter22", "4111-1111"] {
        assert!(!everything.contains(secret), "{secret} was stored");
    }
    worker.stop().await.unwrap();
}

/// A person copies a job from a page that shows it.
#[tokio::test]
async fn a_placeholder_is_not_mistaken_for_a_secret() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("plain")).await.unwrap();
    let actor = Actor::new("ada");
    let copied = NewJob::new("plain").payload(&json!({"to": {"api_key": PLACEHOLDER}}));
    let refused = queue.enqueue_as(DEFAULT_TENANT, &actor, &copied).await.unwrap_err().to_string();
    assert!(
        refused.starts_with("payload/to/api_key: is [redacted], the placeholder of a hidden value"),
        "{refused}"
    );
    assert!(queue.check_job(&copied).await.is_err());
    let note = NewJob::new("plain").payload(&json!({"note": PLACEHOLDER}));
    queue.check_job(&note).await.unwrap();
}

#[tokio::test]
async fn events_are_shown_without_strings_under_sensitive_keys() {
    let queue = TestQueue::create().await;
    let event = NewEvent::new("user.made").payload(&json!({"password": "hunter22", "name": "zoe"}));
    let id = queue.emit(&event).await.unwrap().id;
    let shown = json!({"password": PLACEHOLDER, "name": "zoe"});
    assert_eq!(queue.event(DEFAULT_TENANT, id).await.unwrap().unwrap().payload, shown);
    assert_eq!(queue.events(DEFAULT_TENANT, &EventFilter::default()).await.unwrap()[0].payload, shown);
}

#[tokio::test]
async fn the_rules_of_a_definition_are_checked_when_stored() {
    let queue = TestQueue::create().await;
    let bad = Redaction::new().expression("(");
    let refused = queue.define(&Definition::new("x").redaction(bad)).await.unwrap_err().to_string();
    assert!(refused.starts_with("redaction/expressions/0: regex parse error"), "{refused}");
}
