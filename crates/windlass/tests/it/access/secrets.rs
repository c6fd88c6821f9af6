//! Secrets that no role may read only because it may read rows: the fences of running jobs, and the hashes of passwords and tokens.

use windlass::{Definition, NewJob};
use windlass_testing::{Login, TestQueue};

use super::{GROUPS, refusal, set_tenant};
use crate::support::Hand;

/// The token and the attempt are the fence: whoever knows both can settle the job in the name of its worker.
#[tokio::test]
async fn nobody_who_reads_sees_the_token_of_a_running_job() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let job = queue.enqueue(&NewJob::new("a")).await.unwrap().id;
    Hand::new(queue.client().await).await.claim_one().await;
    for group in ["windlass_app", "windlass_reader", "windlass_server", "windlass_admin", "windlass_operator"]
    {
        let role = Login::create(&queue, group).await;
        let client = role.client().await;
        set_tenant(&client, Some(windlass::DEFAULT_TENANT)).await;
        for query in [
            "select token from windlass.live",
            "select * from windlass.live",
            "select l::text from windlass.live l",
            "select to_jsonb(l) from windlass.live l",
            "select token from windlass.pull_lease",
            "select * from windlass.pull_lease",
            "select 1 from windlass.live where token is not null",
        ] {
            assert_eq!(refusal(client.query(query, &[]).await), "42501", "{group}: {query}");
        }
        let seen = "select status, started_at is not null from windlass.jobs where id = $1";
        let row = client.query_one(seen, &[&job]).await.unwrap();
        assert_eq!((row.get(0), row.get(1)), ("running", true), "{group}");
        assert_eq!(client.query("select job_id, attempt from windlass.live", &[]).await.unwrap().len(), 1);
        assert_eq!(client.query("select * from windlass.job_attempts", &[]).await.unwrap().len(), 1);
        role.drop().await;
    }
}

/// The admin's role manages tenants and definitions, and a person with a login may have it; see decision 0014.
#[tokio::test]
async fn only_the_server_looks_credentials_up_and_reads_their_hashes() {
    let queue = TestQueue::create().await;
    for group in GROUPS {
        let role = Login::create(&queue, group).await;
        let client = role.client().await;
        for call in [
            "find_user('a')",
            "find_token('a', null)",
            "find_session('\\x00')",
            "find_invitation('\\x00')",
            "find_password_reset('\\x00')",
        ] {
            let answer = client.query(&format!("select windlass.{call}"), &[]).await;
            match group {
                "windlass_server" => assert!(answer.is_ok(), "{call}: {answer:?}"),
                _ => assert_eq!(refusal(answer), "42501", "{group}: {call}"),
            }
        }
        role.drop().await;
    }
}
