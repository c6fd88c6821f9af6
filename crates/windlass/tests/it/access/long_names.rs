//! Names that callers give to the audit trail have a limit, so that every page of it can be read.

use windlass::admin::INSTALLATION;
use windlass_testing::{Login, TestQueue};

use super::refusal;
use crate::support::count;

/// cut at a character, of which each has two bytes here.
#[tokio::test]
async fn the_texts_that_a_caller_gives_to_the_audit_trail_are_cut() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    let role = Login::create(&queue, "windlass_operator").await;
    let operator = role.client().await;
    let server = queue.client().await;
    server.batch_execute("set role windlass_server").await.unwrap();
    let name = "select set_config('windlass.actor', jsonb_build_object('name', 'x' || repeat('é', 100000), 'role', repeat('é', 100000),
        'from_address', repeat('é', 100000), 'request_id', repeat('é', 100000))::text, false)";
    for client in [&operator, &server] {
        client.batch_execute(name).await.unwrap();
        client.batch_execute("select windlass.set_paused('q', true)").await.unwrap();
        client.batch_execute("select windlass.set_paused('q', false)").await.unwrap();
        let many = format!(
            "select windlass.record_audit('{INSTALLATION}', repeat('é', 100000), repeat('é', 100000), repeat('é', 100000),
               repeat('é', 100000), repeat('é', 100000), repeat('é', 100000), 'denied', null, null);
             select windlass.record_audits('{INSTALLATION}', array[repeat('é', 100000)], array[repeat('é', 100000)],
               array[repeat('é', 100000)], array[repeat('é', 100000)], 'job.enqueue', array[repeat('é', 100000)], array['{{}}'::jsonb])"
        );
        client.batch_execute(&many).await.unwrap();
        let large = format!(
            "select windlass.record_audit('{INSTALLATION}', 'a', 'a', null, null, 'job.enqueue', 't', 'done', null,
               to_jsonb(repeat('x', 2000000)))"
        );
        assert_eq!(refusal(client.batch_execute(&large).await), "WL007");
    }
    // Four of each, and what the login is called beside them.
    let cut = "select count(*) from windlass.audit a where length(a.actor) > 200 and octet_length(a.actor) <= 600 and octet_length(a.role) <= 600
        and coalesce(octet_length(a.request_id), 500) between 499 and 500 and octet_length(a.action) <= 500 and octet_length(a.target) <= 500
        and coalesce(octet_length(a.from_address), 0) <= 500";
    assert_eq!(count(&admin, cut).await, 8);
    let long = "select count(*) from windlass.audit a where octet_length(a::text) > 10000";
    assert_eq!(count(&admin, long).await, 0);
    drop(operator);
    role.drop().await;
}
