//! The entry points: what they store, and what they reject.

mod arguments;
mod many;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;
use windlass::job::{IfUnmet, Source, State};
use windlass::{DEFAULT_TENANT, Definition, Error, NewJob};
use windlass_testing::TestQueue;

use crate::support::{assert_counts_are_exact, count, everything, job, status};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_no_options_takes_every_default() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("plain")).await.unwrap();
    let enqueued = queue.enqueue(&NewJob::new("plain")).await.unwrap();
    assert_eq!((enqueued.state, enqueued.is_duplicate), (Some(State::Queued), false));
    assert_eq!(enqueued.id.get_version_num(), 7);
    let row = job(&client, enqueued.id).await;
    let wanted = json!({"status": "queued", "payload": {}, "tenant_id": DEFAULT_TENANT, "definition_key": "plain",
        "queue": "default", "priority": 100, "source": "manual", "max_attempts": 3, "attempt_count": 0,
        "dedupe_key": null, "correlation_id": null, "started_at": null, "finished_at": null, "last_error": null,
        "claimed_by_worker": null, "lease_expires_at": null, "result": null, "artifact": null, "tags": null});
    for (column, value) in wanted.as_object().unwrap() {
        assert_eq!(&row[column], value, "{column}");
    }
    assert_eq!(row["queued_at"], row["scheduled_for"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_option_is_stored_and_returned() {
    let queue = TestQueue::create().await;
    let mut client = queue.client().await;
    let tenant = queue.tenant("acme").await;
    queue.define(&Definition::new("full")).await.unwrap();
    let needed = queue.enqueue(&NewJob::new("full").tenant(tenant)).await.unwrap().id;
    let user = Uuid::now_v7();
    let start: Timestamp = "2035-01-02T03:04:05Z".parse().unwrap();
    let deadline: Timestamp = "2035-02-03T04:05:06Z".parse().unwrap();
    let full = |key: &str| {
        NewJob::new("full")
            .tenant(tenant)
            .payload(&json!({"a": [1, {"b": null}]}))
            .queue("mail")
            .priority(7)
            .scheduled_for(start)
            .dedupe_key(format!("dedupe {key}"))
            .idempotency_key(format!("request {key}"))
            .ordering_key("account 7")
            .depends_on(needed)
            .if_unmet(IfUnmet::Run)
            .subject("post", "12")
            .tag("red")
            .tag("blue")
            .correlation_id("corr")
            .source(Source::Event, Some("event 9".to_owned()))
            .max_attempts(9)
            .deadline(deadline)
            .created_by(user)
            .trace(TRACE)
    };
    let (one, two) = (Uuid::now_v7(), Uuid::now_v7());
    assert_eq!(queue.enqueue(&full("a").id(one)).await.unwrap().id, one);
    let transaction = client.transaction().await.unwrap();
    assert_eq!(windlass::enqueue_in(&transaction, &full("b").id(two)).await.unwrap().id, two);
    transaction.commit().await.unwrap();
    for (id, key) in [(one, "a"), (two, "b")] {
        let row = job(&client, id).await;
        let wanted = json!({"status": "blocked", "payload": {"a": [1, {"b": null}]}, "tenant_id": tenant, "queue": "mail",
            "priority": 7, "dedupe_key": format!("dedupe {key}"), "ordering_key": "account 7", "subject_type": "post",
            "subject_id": "12", "tags": ["red", "blue"], "correlation_id": "corr", "source": "event",
            "source_ref": "event 9", "max_attempts": 9, "created_by": user,
            "trace": TRACE});
        for (column, value) in wanted.as_object().unwrap() {
            assert_eq!(&row[column], value, "{column}");
        }
        let seen = |column: &str| row[column].as_str().unwrap().parse::<Timestamp>().unwrap();
        assert_eq!((seen("scheduled_for"), seen("deadline")), (start, deadline));
    }
    // The unguarded path stores the rare columns too.
    let plain = NewJob::new("full")
        .tenant(tenant)
        .subject("post", "13")
        .tag("t")
        .created_by(user)
        .correlation_id("c");
    let plain = plain.source(Source::Schedule, Some("s".to_owned())).trace(TRACE);
    for id in [queue.enqueue(&plain).await.unwrap().id, queue.enqueue_many(&[plain]).await.unwrap()[0].id] {
        let row = job(&client, id).await;
        assert_eq!(
            (&row["subject_id"], &row["tags"], &row["source"]),
            (&json!("13"), &json!(["t"]), &json!("schedule"))
        );
        assert_eq!(
            (&row["created_by"], &row["trace"], &row["source_ref"]),
            (&json!(user), &json!(TRACE), &json!("s"))
        );
    }
}

/// Invariant 10: the job exists if and only if the caller's transaction committed.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_exists_if_and_only_if_its_callers_transaction_commits() {
    let queue = TestQueue::create().await;
    let mut client = queue.client().await;
    queue.define(&Definition::new("plain")).await.unwrap();
    let mut seen = Vec::new();
    for commit in [true, false] {
        let transaction = client.transaction().await.unwrap();
        let id = windlass::enqueue_in(&transaction, &NewJob::new("plain").dedupe_key("k")).await.unwrap().id;
        if commit {
            transaction.commit().await.unwrap();
            queue.cancel(DEFAULT_TENANT, id).await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
        }
        seen.push(status(&client, id).await);
    }
    assert_eq!(seen, ["canceled", "missing"]);
    assert_counts_are_exact(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_language_enqueues_through_sql_and_from_a_row_trigger() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("plain")).await.unwrap();
    let insert =
        "select * from windlass.enqueue('plain', '{\"n\": 1}', delay => '1 hour', tags => array['x'])";
    let row = client.query_one(insert, &[]).await.unwrap();
    assert_eq!((row.get::<_, &str>("status"), row.get::<_, bool>("is_duplicate")), ("scheduled", false));
    assert_eq!(job(&client, row.get("id")).await["payload"], json!({"n": 1}));

    let setup = "create table contacts (id bigint generated always as identity, name text);
        create function enqueue_contact() returns trigger language plpgsql as $$
        begin
          perform windlass.enqueue('plain', jsonb_build_object('contact', new.id), subject_type => 'contact', subject_id => new.id::text);
          return new;
        end $$;
        create trigger enqueue_contact after insert on contacts for each row execute function enqueue_contact();
        insert into contacts (name) values ('Ada'), ('Grace');";
    client.batch_execute(setup).await.unwrap();
    client.batch_execute("begin; insert into contacts (name) values ('nobody'); rollback").await.unwrap();
    let subjects = "select count(*) from windlass.jobs where subject_type = 'contact' and status = 'queued'";
    assert_eq!(count(&client, subjects).await, 2);
    assert_counts_are_exact(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_name_is_reported_as_a_definition_that_does_not_exist() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    for call in
        ["enqueue(null)", "enqueue_many(null, array['1']::jsonb[])", "route_of(null, null, null, null)"]
    {
        let error = client.query(&format!("select * from windlass.{call}"), &[]).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "WL001", "{call}: {error:?}");
    }
}

/// An error names the field, at every entry point.
#[tokio::test(flavor = "multi_thread")]
async fn values_beyond_the_limits_are_rejected_at_every_entry_point() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("plain")).await.unwrap();
    let new = || NewJob::new("plain");
    let deep = format!("{}1{}", "[".repeat(40), "]".repeat(40));
    let refused = [
        ("payload", new().payload(&"x".repeat(1_100_000))),
        ("payload", new().payload_json(deep.clone())),
        ("payload", new().payload_json(r#"{"n": 1e131071}"#)),
        ("payload", new().payload_json(r#"{"text": "a\u0000b"}"#)),
        ("payload", new().payload_json("not json")),
        ("max_attempts", new().max_attempts(0)),
        ("max_attempts", new().max_attempts(1001)),
        ("subject_id", new().subject("post", "x".repeat(501))),
        ("subject_type", new().subject("", "x")),
        ("correlation_id", new().correlation_id("a\0b")),
        ("dedupe_key", new().dedupe_key("x".repeat(501))),
        ("tags", new().tag("x".repeat(101))),
        ("depends_on", (0..101).fold(new(), |job, _| job.depends_on(Uuid::new_v4()))),
        ("tags", (0..21).fold(new(), |job, n| job.tag(n.to_string()))),
        ("queue", new().queue("no spaces")),
    ];
    queue.enqueue(&new()).await.unwrap();
    let before = everything(&client).await;
    for (name, job) in refused {
        let results = [
            queue.enqueue(&job).await.unwrap_err(),
            queue.enqueue_many(std::slice::from_ref(&job)).await.unwrap_err(),
            windlass::enqueue_in(&client, &job).await.unwrap_err(),
        ];
        for error in results {
            assert!(matches!(&error, Error::Refused { field, .. } if field == name), "{name}: {error}");
        }
    }
    let in_sql = [
        ("payload", "payload => to_jsonb(repeat('x', 1100000))".to_owned()),
        ("payload", format!("payload => '{deep}'")),
        ("payload", "payload => '{\"n\": 1e131071}'".to_owned()),
        ("payload", "payload => '[-1e309]'".to_owned()),
        ("payload", "payload => null".to_owned()),
        ("max_attempts", "max_attempts => 0".to_owned()),
        ("max_attempts", "max_attempts => 1001".to_owned()),
        ("source", "source => 'nowhere'".to_owned()),
        ("if_unmet", "if_unmet => 'shrug'".to_owned()),
        ("uniqueness", "uniqueness => '\"sometimes\"'".to_owned()),
        ("uniqueness", "dedupe_key => 'k', uniqueness => '{\"window_seconds\": -5}'".to_owned()),
        ("uniqueness", "dedupe_key => 'k', uniqueness => '{\"window_seconds\": 1e300}'".to_owned()),
        ("subject_id", "subject_id => repeat('x', 501)".to_owned()),
        ("trace", "trace => ''".to_owned()),
        ("tags", "tags => array[repeat('x', 101)]".to_owned()),
        ("queue", "queue => 'no spaces'".to_owned()),
        ("depends_on", "depends_on => array[gen_random_uuid()]".to_owned()),
    ];
    for (name, argument) in in_sql {
        let call = format!("select * from windlass.enqueue('plain', {argument})");
        let error = Error::from(client.query(&call, &[]).await.unwrap_err());
        assert!(matches!(&error, Error::Refused { field, .. } if field == name), "{name}: {error}");
    }
    assert_eq!(everything(&client).await, before);
    for argument in [
        "payload => '[1e308, -1.5, 0.000001]'",
        "payload => to_jsonb(repeat('1', 400))",
        "max_attempts => 1000",
    ] {
        client.query(&format!("select * from windlass.enqueue('plain', {argument})"), &[]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_violates_its_schema_is_rejected_with_the_place() {
    let queue = TestQueue::create().await;
    let schema = json!({"type": "object", "required": ["to"], "additionalProperties": false,
        "properties": {"to": {"type": "string", "format": "email"}, "n": {"type": "array", "items": {"type": "integer"}}}});
    queue.define(&Definition::new("mail").arg_schema(schema)).await.unwrap();
    let refused = [
        (json!({"to": "nobody"}), "/to"),
        (json!({"to": "a@b.example", "n": [1, "two"]}), "/n/1"),
        (json!({}), ""),
        (json!({"to": "a@b.example", "secret": 1}), ""),
    ];
    for (payload, place) in refused {
        let error = queue.enqueue(&NewJob::new("mail").payload(&payload)).await.unwrap_err();
        let Error::PayloadRefused { faults } = &error else { panic!("{error}") };
        let [(pointer, _)] = &faults[..] else { panic!("{error}") };
        assert_eq!(pointer, place, "{error}");
    }
    let both = NewJob::new("mail").payload(&json!({"to": "nobody", "n": ["one"]}));
    let error = queue.enqueue(&both).await.unwrap_err();
    assert!(matches!(&error, Error::PayloadRefused { faults } if faults.len() == 2), "{error}");
    assert!(error.to_string().ends_with("; and 1 more error"), "{error}");
    queue.enqueue(&NewJob::new("mail").payload(&json!({"to": "a@b.example"}))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relaxed_schema_takes_effect() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let day = Duration::from_secs(86_400);
    let strict = Definition::new("mail").arg_schema(json!({"required": ["a", "b"]}));
    queue.define(&strict.retention(State::Failed, day).retention(State::Succeeded, day)).await.unwrap();
    let loose = Definition::new("mail").arg_schema(json!({"required": ["a"]}));
    queue.define(&loose.retention(State::Failed, day)).await.unwrap();
    let row =
        client.query_one("select arg_schema, retention from windlass.job_definitions", &[]).await.unwrap();
    assert_eq!(row.get::<_, Value>(0), json!({"required": ["a"]}));
    assert_eq!(row.get::<_, Value>(1), json!({"failed": 86_400}));
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_or_inactive_definitions_and_tenants_are_rejected() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("plain")).await.unwrap();
    client.execute("select windlass.define('{\"key\": \"off\", \"is_active\": false}')", &[]).await.unwrap();
    let suspended = queue.tenant("late-payer").await;
    client
        .execute("update windlass.tenants set status = 'suspended' where id = $1", &[&suspended])
        .await
        .unwrap();
    let jobs = [
        NewJob::new("nope"),
        NewJob::new("off"),
        NewJob::new("plain").tenant(suspended),
        NewJob::new("plain").tenant(Uuid::new_v4()),
    ];
    let before = everything(&client).await;
    for (n, job) in jobs.iter().enumerate() {
        for error in
            [queue.enqueue(job).await.unwrap_err(), windlass::enqueue_in(&client, job).await.unwrap_err()]
        {
            match n {
                0 => assert!(matches!(&error, Error::UnknownDefinition { key } if key == "nope"), "{error}"),
                1 => assert!(matches!(&error, Error::InactiveDefinition { key } if key == "off"), "{error}"),
                _ => assert!(matches!(&error, Error::TenantRefused { .. }), "{error}"),
            }
        }
    }
    assert_eq!(everything(&client).await, before);
}

/// Invariant 45, at the entry point: a transaction that acts for one tenant cannot enqueue for another.
#[tokio::test(flavor = "multi_thread")]
async fn the_current_tenant_is_the_jobs_tenant() {
    let queue = TestQueue::create().await;
    let mut client = queue.client().await;
    queue.define(&Definition::new("plain")).await.unwrap();
    let (ours, theirs) = (queue.tenant("ours").await, queue.tenant("theirs").await);
    let transaction = client.transaction().await.unwrap();
    transaction
        .execute("select set_config('windlass.tenant_id', $1, true)", &[&ours.to_string()])
        .await
        .unwrap();
    let id = windlass::enqueue_in(&transaction, &NewJob::new("plain")).await.unwrap().id;
    let refused = windlass::enqueue_in(&transaction, &NewJob::new("plain").tenant(theirs)).await.unwrap_err();
    assert!(matches!(refused, Error::TenantRefused { .. }), "{refused}");
    transaction.rollback().await.unwrap();
    assert_eq!(status(&client, id).await, "missing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callers_own_id_is_kept_and_accepted_only_once() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("plain")).await.unwrap();
    let jobs: Vec<_> = (0..3).map(|_| NewJob::new("plain")).collect();
    queue.enqueue_many(&jobs).await.unwrap();
    let defaults = "select count(*) from windlass.job_default";
    assert_eq!(count(&client, defaults).await, 0, "today's jobs are in today's partition");
    // Any uuid is valid; one without a time in it is stored in the default partition.
    let id = Uuid::new_v4();
    assert_eq!(queue.enqueue(&NewJob::new("plain").id(id)).await.unwrap().id, id);
    assert_eq!(status(&client, id).await, "queued");
    let before = everything(&client).await;
    for again in [NewJob::new("plain").id(id), NewJob::new("plain").id(id).dedupe_key("k")] {
        queue.enqueue(&again).await.unwrap_err();
        queue.enqueue_many(&[NewJob::new("plain"), again]).await.unwrap_err();
    }
    assert_eq!(everything(&client).await, before);
}

/// A worker gets the same payload as the list shows, even if a name is repeated, and otherwise unchanged.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_name_counts_once_at_every_entry_point() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("twice")).await.unwrap();
    let client = queue.client().await;
    let twice = NewJob::new("twice")
        .payload_json(r#"{"n": 1.50, "n" : 12345678901234567890.10, "a": [{"x":1,"\u0078":2}]}"#);
    queue.enqueue(&twice).await.unwrap();
    queue.enqueue_many(&vec![twice.clone(); 2]).await.unwrap();
    queue.enqueue_many(&vec![twice.clone(); 6000]).await.unwrap();
    windlass::enqueue_in(&client, &twice).await.unwrap();
    let query = "select distinct payload::jsonb::text, (select count(*) from json_object_keys(payload)) from windlass.job";
    let rows = client.query(query, &[]).await.unwrap();
    let read: Vec<(String, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(read, [(r#"{"a": [{"x": 2}], "n": 12345678901234567890.10}"#.to_owned(), 2)]);
}
