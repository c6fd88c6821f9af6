//! What a SQL worker is refused: other tenants, other jobs, invalid arguments, and everything that is not its own protocol.

use uuid::Uuid;
use windlass::{DEFAULT_TENANT, NewJob};
use windlass_testing::TestQueue;

use super::{Set, take};
use crate::access::{refusal, set_tenant};
use crate::support::everything;

#[tokio::test]
async fn a_sql_worker_is_held_to_the_current_tenant() {
    let set = Set::new().await;
    let (own, other) = (set.queue.tenant("own").await, set.queue.tenant("other").await);
    let mine = set.queue.enqueue(&NewJob::new("taken").tenant(own)).await.unwrap().id;
    set.queue.enqueue(&NewJob::new("taken").tenant(other)).await.unwrap();
    let none = "select windlass.take(array['taken'])";
    assert_eq!(refusal(set.worker.query(none, &[]).await), "WL003", "no tenant is set");
    set_tenant(&set.worker, Some(own)).await;
    let taken = set.take("array['taken'], 10").await;
    assert_eq!(taken.iter().map(super::Taken::id).collect::<Vec<_>>(), [mine]);
    let theirs = take(&set.admin, &format!("array['taken'], tenant_id => '{other}'")).await.remove(0);
    let before = everything(&set.admin).await;
    for call in [
        format!("take(array['taken'], tenant_id => '{other}')"),
        format!("finish({}, tenant_id => '{other}')", theirs.held()),
        format!("extend({}, tenant_id => '{other}')", theirs.held()),
        format!("fail({}, 'e', tenant_id => '{other}')", theirs.held()),
        format!("snooze({}, '1 s', tenant_id => '{other}')", theirs.held()),
        format!("release({}, tenant_id => '{other}')", theirs.held()),
    ] {
        assert_eq!(
            refusal(set.worker.query(&format!("select windlass.{call}"), &[]).await),
            "WL003",
            "{call}"
        );
    }
    for call in [
        format!("finish({})", theirs.held()),
        format!("finish('{mine}', '{}')", theirs.token()),
        format!("finish('{}', '{}')", theirs.id(), taken[0].token()),
        format!("finish('{mine}', '{}')", Uuid::new_v4()),
        format!("extend('{mine}', null)"),
        format!("release(null, '{}')", taken[0].token()),
    ] {
        assert_eq!(
            refusal(set.worker.query(&format!("select windlass.{call}"), &[]).await),
            "WL019",
            "{call}"
        );
    }
    let many = "select windlass.take(array_fill('a'::text, array[1001]))";
    assert_eq!(refusal(set.worker.query(many, &[]).await), "WL007");
    assert_eq!(everything(&set.admin).await, before);
    set.drop().await;
}

#[tokio::test]
async fn a_sql_worker_can_call_nothing_else_and_read_nothing() {
    let set = Set::new().await;
    for denied in [
        "select windlass.claim(1, null, '{}', '{}', '{}')",
        "select windlass.pull_claim(1, null, '{}', '{}', '{}', '{}', '{}', '{}', 1)",
        "select windlass.pull_settle(null, null, 1, null, null)",
        "select windlass.enqueue('taken')",
        "select windlass.end_taken(null, null, null, 'failed', 'policy', null, '{}')",
        "select from windlass.jobs",
        "select from windlass.pull_lease",
    ] {
        assert_eq!(refusal(set.worker.query(denied, &[]).await), "42501", "{denied}");
    }
    set.drop().await;
}

#[tokio::test]
async fn invalid_arguments_are_named_and_change_nothing() {
    let set = Set::new().await;
    set.enqueue("'{}'").await;
    let held = set.take_one().await.held();
    let before = everything(&set.admin).await;
    for (call, field) in [
        ("take()".to_owned(), "keys"),
        ("take('{}', queues => '{}')".to_owned(), "keys"),
        ("take('{taken}', 0)".to_owned(), "most"),
        ("take('{taken}', 101)".to_owned(), "most"),
        ("take('{taken}', null)".to_owned(), "most"),
        ("take('{taken}', lease => '0 s')".to_owned(), "lease"),
        ("take('{taken}', lease => '2 days')".to_owned(), "lease"),
        ("take('{taken}', worker_id => 'a b')".to_owned(), "worker_id"),
        (format!("extend({held}, '-1 s')"), "lease"),
        (format!("extend({held}, percent => 'NaN')"), "percent"),
        (format!("snooze({held}, null)"), "delay"),
        (format!("finish({held}, next => '{{}}')"), "next"),
        (format!("finish({held}, next => '[{{\"payload\": 1}}]')"), "next"),
        (format!("finish({held}, next => '[{{\"definition_key\": \"taken\", \"x\": 1}}]')"), "next"),
        (format!("finish({held}, next => '[{{\"definition_key\": \"taken\", \"delay\": []}}]')"), "delay"),
        (
            format!("finish({held}, next => '[{{\"definition_key\": \"taken\", \"priority\": \"a\"}}]')"),
            "priority",
        ),
    ] {
        let error = set.worker.query(&format!("select windlass.{call}"), &[]).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!((error.code().code(), error.column()), ("WL007", Some(field)), "{call}: {error}");
    }
    for (call, code) in [
        (format!("finish({held}, to_jsonb(repeat('x', 1100000)))"), "WL005"),
        (format!("finish({held}, next => '[{{\"definition_key\": \"none\"}}]')"), "WL001"),
    ] {
        assert_eq!(refusal(set.worker.query(&format!("select windlass.{call}"), &[]).await), code, "{call}");
    }
    assert_eq!(everything(&set.admin).await, before, "the job is still held");
    assert_eq!(set.end(&format!("finish({held})")).await, "succeeded");
    set.drop().await;
}

/// A transaction of the application may cancel the job and stay open.
#[tokio::test]
async fn an_end_does_not_wait_for_an_open_transaction() {
    let set = Set::new().await;
    let id = set.enqueue("'{}'").await;
    let held = set.take_one().await.held();
    let other = set.queue.client().await;
    let cancel = format!("begin; select windlass.cancel('{DEFAULT_TENANT}', '{id}')");
    other.batch_execute(&cancel).await.unwrap();
    let finish = format!("select windlass.finish({held})");
    assert_eq!(refusal(set.worker.query(&finish, &[]).await), "WL016");
    other.batch_execute("rollback").await.unwrap();
    assert_eq!(set.end(&format!("finish({held})")).await, "succeeded");
    set.drop().await;
}

/// Text that is long or has control characters never prevents an end.
#[tokio::test]
async fn texts_are_stored_within_their_limits() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    for (given, expected) in [
        ("repeat('a', 30)", "30"),
        ("repeat('a', 9000)", "8168"),
        ("repeat('é', 5000)", "4097"),
        ("repeat(E'\\x01', 20)", "60"),
        ("''", "0"),
    ] {
        let query = format!("select octet_length(windlass.storable({given}, 8192))::text");
        let found: String = client.query_one(&query, &[]).await.unwrap().get(0);
        assert_eq!(found, expected, "{given}");
    }
}

/// with a fixed snapshot, a stale token was refused as a wrong isolation level (WL021). That is right only for a job that was
/// taken since the snapshot.
#[tokio::test]
async fn a_stale_token_is_refused_as_such_at_every_isolation_level() {
    let set = Set::new().await;
    let id = set.enqueue("'{}'").await;
    let later = set.enqueue("'{}', delay => '1 ms'").await;
    let held = set.take_one().await.held();
    let fixed = set.login.client().await;
    fixed.batch_execute("begin isolation level repeatable read; savepoint s").await.unwrap();
    fixed.query("select 1 from pg_class limit 1", &[]).await.unwrap();
    set.promote(later).await;
    let taken_since = set.take_one().await.held();
    let stale = Uuid::new_v4();
    for (held, code) in [
        (format!("'{id}', '{stale}'"), "WL019"),
        (format!("'{stale}', '{stale}'"), "WL019"),
        (format!("null, '{stale}'"), "WL019"),
        (taken_since, "WL021"),
    ] {
        for call in [
            format!("finish({held})"),
            format!("fail({held}, 'e')"),
            format!("snooze({held}, '1 s')"),
            format!("release({held})"),
        ] {
            assert_eq!(refusal(fixed.query(&format!("select windlass.{call}"), &[]).await), code, "{call}");
            fixed.batch_execute("rollback to s").await.unwrap();
        }
    }
    let row = fixed.query_one(&format!("select windlass.finish({held})"), &[]).await.unwrap();
    assert_eq!(row.get::<_, String>(0), "succeeded", "its own, which the snapshot contains");
    fixed.batch_execute("commit").await.unwrap();
    drop(fixed);
    set.drop().await;
}
