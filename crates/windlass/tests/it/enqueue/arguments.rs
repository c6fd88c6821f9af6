//! Arguments of `windlass.enqueue` that no job can have.

use serde_json::json;
use windlass::DEFAULT_TENANT;
use windlass::admin::Reach;
use windlass_testing::TestQueue;

use crate::support::Hand;

#[tokio::test(flavor = "multi_thread")]
async fn the_sql_function_names_the_argument_that_it_rejects() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    for (argument, column) in [
        ("depends_on => array(select gen_random_uuid() from generate_series(1, 101))", "depends_on"),
        ("depends_on => array[array[gen_random_uuid()]]", "depends_on"),
        ("tags => array[array['a', 'b'], array['c', 'd']]", "tags"),
        ("tags => array['a', null]", "tags"),
        ("priority => -1", "priority"),
        ("priority => 1001", "priority"),
    ] {
        let call = format!("select id from windlass.enqueue('held', {argument})");
        let error = hand.client.query_one(&call, &[]).await.unwrap_err();
        let refused = error.as_db_error().unwrap();
        assert_eq!((refused.code().code(), refused.column()), ("WL007", Some(column)), "{argument}");
    }
    // A row from before that rule is shown without its tags.
    let odd = hand.enqueue("'held', tags => array['a']").await;
    let spoil = "update windlass.job set tags = array[array['a', 'b']] where id = $1";
    hand.client.execute(spoil, &[&odd]).await.unwrap();
    let looking = queue.look(Reach::Tenant(DEFAULT_TENANT)).await.unwrap();
    assert!(looking.job(DEFAULT_TENANT, odd).await.unwrap().unwrap().tags.is_empty());
}

/// 23 or 25 hours of a day on which the clocks of the session's time zone change. One of these delays ends after
/// one change, whatever the day of the test is.
#[tokio::test(flavor = "multi_thread")]
async fn a_delay_in_days_does_not_depend_on_the_time_zone_of_the_session() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    hand.client.batch_execute("set timezone = 'America/New_York'").await.unwrap();
    for days in [100, 150, 200, 250, 300] {
        let id = hand.enqueue(&format!("'held', delay => '{days} days'")).await;
        let seconds = "select extract(epoch from d.due_at - b.created_at)::float8 from windlass.job b
            join windlass.deferred d on d.job_id = b.id where b.id = $1";
        let seconds: f64 = hand.client.query_one(seconds, &[&id]).await.unwrap().get(0);
        assert_eq!(seconds, f64::from(days) * 86_400.0);
    }
}
