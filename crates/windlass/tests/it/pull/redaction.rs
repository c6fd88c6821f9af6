//! Secrets are removed from the messages of a pull worker before they are stored (X-19, invariant 46).

use serde_json::{Value, json};
use windlass::job::LogPosition;
use windlass::pull::{Heartbeat, Held};
use windlass::redact::Redaction;
use windlass::{DEFAULT_TENANT, Definition, Done, Failure, NewJob};

use super::{anyone, start, take_one};
use crate::support::{everything, job, soon};

const SECRETS: [&str; 4] = ["k3y-of-the-payload", "4711-0815", "DE12345678901234567890", "on two\nlines"];

#[tokio::test(flavor = "multi_thread")]
async fn no_message_of_a_pull_worker_stores_a_secret() {
    let (queue, pull) = start().await;
    let client = queue.client().await;
    let redaction = Redaction::new().expression(r"\bDE\d{20}\b").key("customer_pin");
    queue.define(&Definition::new("pulled").backoff(soon()).redaction(redaction)).await.unwrap();
    let payload =
        json!({"api_key": SECRETS[0], "customer_pin": SECRETS[1], "secret": SECRETS[3], "city": "Bonn"});
    for way in ["complete", "fail"] {
        let id = queue.enqueue(&NewJob::new("pulled").payload(&payload)).await.unwrap().id;
        let taken = take_one(&pull).await;
        let given: Value = serde_json::from_str(taken.payload.get()).unwrap();
        assert_eq!(given, payload, "the worker gets the complete payload");
        let message = SECRETS.join(", ");
        let mut log: Vec<String> = ["on two", "lines"].map(str::to_owned).to_vec();
        log.insert(0, "x".repeat(70_000));
        log.push(format!("with {message} in Bonn"));
        let beat =
            Heartbeat::default().percent(Some(1.0)).message(Some(format!("half of {message}"))).log(log);
        assert!(matches!(pull.heartbeat(&anyone(), id, &taken.fence, &beat).await.unwrap(), Held::Held(_)));
        let hidden = "[redacted], [redacted], [redacted], [redacted]";
        assert_eq!(job(&client, id).await["progress_message"], format!("half of {hidden}"));
        let log = queue.read_log(DEFAULT_TENANT, id, LogPosition::default()).await.unwrap();
        let text: String = log.chunks.iter().map(|chunk| chunk.text.as_str()).collect();
        let kept = format!("\n[redacted]\nwith {hidden} in Bonn\n");
        assert!(text.starts_with("…[truncated") && text.ends_with(&kept), "{text}");
        match way {
            "complete" => {
                let done = Done::new()
                    .result(&json!({"said": message, SECRETS[1]: 1}))
                    .artifact(&json!([SECRETS[0]]));
                pull.complete(&anyone(), id, &taken.fence, done).await.unwrap();
                let row = job(&client, id).await;
                assert_eq!(row["result"], json!({"said": hidden, "[redacted]": 1}));
                assert_eq!(row["artifact"], json!(["[redacted]"]));
            }
            _ => {
                pull.fail(&anyone(), id, &taken.fence, Failure::permanent(&message)).await.unwrap();
                assert_eq!(job(&client, id).await["last_error"], hidden);
            }
        }
    }
    client.batch_execute("update windlass.job set payload = '{}'").await.unwrap();
    let everything = everything(&client).await;
    for secret in SECRETS {
        assert!(!everything.contains(secret), "{secret} was stored");
    }
    pull.stop().await;
}
