//! The nil and the max UUID are where lists begin and end, so a job with one of these ids would be in none. Every entry point refuses them.

use uuid::Uuid;
use windlass::{DEFAULT_TENANT, Definition, Error, NewJob};
use windlass_testing::{Login, TestQueue};

use crate::access::refusal;
use crate::support::count;

#[tokio::test]
async fn the_nil_and_the_max_id_are_refused_at_every_entry_point() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let admin = queue.client().await;
    let lane = "select lane from windlass.route_of($1, 'a', null, null)";
    let lane: i32 = admin.query_one(lane, &[&DEFAULT_TENANT]).await.unwrap().get(0);
    let logins =
        [Login::create(&queue, "windlass_app").await, Login::create(&queue, "windlass_server").await];
    for id in [Uuid::nil(), Uuid::max()] {
        let tenant = DEFAULT_TENANT;
        for call in [
            format!("enqueue('a', job_id => '{id}')"),
            format!("enqueue('a', job_id => '{id}', dedupe_key => 'k')"),
            format!("enqueue_routed('{tenant}', '{id}', {lane}, 3::smallint, '{{}}', null)"),
            format!("enqueue_routed('{tenant}', '{id}', {lane}, 3::smallint, '{{}}', '{{\"trace\": \"t\"}}')"),
            format!("enqueue_alike('{tenant}', {lane}, 3::smallint, array['{id}'::uuid], array['{{}}'::json])"),
            format!(
                "enqueue_routed_many(array['{tenant}'::uuid], array['{id}'::uuid], array[{lane}], array[3::smallint], array[1],
                   array['{{}}'::json], null)"
            ),
        ] {
            for login in &logins {
                let client = login.client().await;
                let answer = client.query(&format!("select windlass.{call}"), &[]).await;
                let column = answer.as_ref().err().and_then(|error| error.as_db_error()?.column());
                assert_eq!(column, Some("job_id"), "{call}: {answer:?}");
                assert_eq!(refusal(answer), "WL007", "{call}");
            }
        }
        for job in [NewJob::new("a").id(id), NewJob::new("a").id(id).dedupe_key("k")] {
            let answers = [
                queue.enqueue(&job).await.map(drop),
                queue.enqueue_many(&[job.clone(), NewJob::new("a")]).await.map(drop),
                windlass::enqueue_in(&admin, &job).await.map(drop),
            ];
            for answer in answers {
                assert!(
                    matches!(&answer, Err(Error::Refused { field, .. }) if field == "job_id"),
                    "{answer:?}"
                );
            }
        }
    }
    assert_eq!(count(&admin, "select count(*) from windlass.job").await, 0);
    for login in logins {
        login.drop().await;
    }
}
