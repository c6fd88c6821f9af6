//! A statement whose caller is gone: the connection is used again.

use futures_util::poll;
use windlass::Queue;
use windlass_testing::{TestQueue, settings};

/// a request is dropped when its client disconnects. To open a connection costs far more than the statement.
///
/// On one thread, so that no answer can arrive while a statement is polled.
#[tokio::test]
async fn a_statement_that_is_dropped_keeps_its_connection() {
    let queue = TestQueue::create().await;
    let url = format!(
        "{}{}application_name=dropped",
        queue.url(),
        if queue.url().contains('?') { "&" } else { "?" }
    );
    let narrow = Queue::connect(settings(&url).connections(1).without_listen()).await.unwrap();
    let client = queue.client().await;
    let processes = async || {
        let text = "select pid from pg_stat_activity where application_name = 'dropped' order by 1";
        client.query(text, &[]).await.unwrap().iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>()
    };
    narrow.ping().await.unwrap();
    let before = processes().await;
    assert_eq!(before.len(), 1);
    for number in 0..20 {
        let id = number.to_string();
        // Dropped while the statement is prepared, or while it runs; and one in a transaction.
        let (mut found, mut pinged) = (Box::pin(narrow.find_token(&id, None)), Box::pin(narrow.ping()));
        assert!(poll!(&mut found).is_pending());
        drop(found);
        assert!(poll!(&mut pinged).is_pending());
        drop(pinged);
        assert!(narrow.find_token(&id, None).await.unwrap().is_none());
        let mut pinged = Box::pin(narrow.ping());
        assert!(poll!(&mut pinged).is_pending());
        drop(pinged);
        narrow.ping().await.unwrap();
    }
    assert_eq!(processes().await, before);
}
