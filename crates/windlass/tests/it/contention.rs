//! What the database reports about conflicting transactions, and about a connection that it refuses, as cases of the error.

use tokio_postgres::Client;
use windlass::{Definition, Error, Queue};
use windlass_testing::{TestQueue, settings, until_a_session_waits};

const LOCK: &str = "select from windlass.job_definitions where key = $1 for update";

/// Two sessions with an open transaction, each with a lock on one of the definitions `a` and `b`.
async fn locked(queue: &TestQueue) -> (Client, Client) {
    for key in ["a", "b"] {
        queue.define(&Definition::new(key)).await.unwrap();
    }
    let (one, two) = (queue.client().await, queue.client().await);
    for (client, key) in [(&one, "a"), (&two, "b")] {
        client.batch_execute("begin").await.unwrap();
        client.execute(LOCK, &[&key]).await.unwrap();
    }
    (one, two)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_a_serialization_failure_and_a_lock_timeout_are_conflicts_to_be_repeated() {
    let queue = TestQueue::create().await;
    let (one, two) = locked(&queue).await;
    one.batch_execute("set local lock_timeout = 50").await.unwrap();
    let lock_timeout = one.execute(LOCK, &[&"b"]).await.unwrap_err();
    drop((one, two));

    let (one, two) = locked(&queue).await;
    let watcher = queue.client().await;
    let waiting = tokio::spawn(async move { one.execute(LOCK, &[&"b"]).await.map(|_| one) });
    until_a_session_waits(&watcher).await;
    let other = two.execute(LOCK, &[&"a"]).await;
    drop(two);
    let deadlock = other.err().or(waiting.await.unwrap().err()).expect("one of them is rolled back");

    let (one, two) = (queue.client().await, queue.client().await);
    one.batch_execute("begin isolation level serializable; select from windlass.job_definitions")
        .await
        .unwrap();
    two.batch_execute("update windlass.job_definitions set description = 'x'").await.unwrap();
    let changed = one.batch_execute("update windlass.job_definitions set description = 'y'").await;

    for (error, code, words) in [
        (lock_timeout, "55P03", "lock timeout"),
        (deadlock, "40P01", "deadlock"),
        (changed.unwrap_err(), "40001", "serialization failure"),
    ] {
        let error = Error::from(error);
        assert!(matches!(error, Error::Contended { code: found } if found == code), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(words) && text.contains("nothing was changed; try again"), "{text}");
        assert!(error.is_transient() && !error.is_timeout());
    }
}

#[tokio::test]
async fn an_unknown_database_and_an_unknown_role_are_not_an_unreachable_database() {
    let queue = TestQueue::create().await;
    let name = queue.url().split('?').next().unwrap().rsplit('/').next().unwrap();
    let elsewhere = queue.url().replace(&format!("/{name}"), "/nowhere");
    let unknown = Queue::connect(settings(&elsewhere)).await.unwrap_err();
    assert!(matches!(&unknown, Error::UnknownDatabase { .. }), "{unknown:?}");
    assert!(unknown.to_string().contains("nowhere") && !unknown.is_transient(), "{unknown}");
    let stranger = queue.url().replace("windlass@", "nobody_knows@");
    let rejected = Queue::connect(settings(&stranger)).await.unwrap_err();
    assert!(matches!(&rejected, Error::LoginRejected { .. }), "{rejected:?}");
    assert!(rejected.to_string().contains("nobody_knows") && !rejected.is_transient(), "{rejected}");
}
