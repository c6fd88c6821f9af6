//! Code of a caller that runs in the session of somebody else does not act for that session.

use tokio_postgres::Client;
use windlass_testing::{Login, TestQueue};

use super::calls::{answer, functions};
use super::stock::stock;
use super::{GROUPS, create_jobs_in_every_table};

/// Calls whatever the other table contains. A function of an index would run in the same way, under autovacuum.
const BAIT: &str = "
    create table bait.call (text text not null);
    insert into bait.call values ('');
    create function bait.attempt() returns text language plpgsql as $$
    begin
      execute format('select r::text from %s r', (select c.text from bait.call c));
      return 'answers';
    exception when others then
      return sqlstate;
    end $$;
    create materialized view bait.view as select bait.attempt() with no data";

const FORGED: &str = "select count(*) from windlass.audit a where a.id > $1 and (a.actor like 'login:' || session_user || '%' or a.role = session_user)";

/// A materialized view is refreshed with the privileges of its owner, by a session whose login is another one: here a superuser. Every
/// function is called that way, without a current tenant. It refuses what it refuses in a session of the owner of the view, and leaves
/// no audit row of the other login.
#[tokio::test(flavor = "multi_thread")]
async fn no_function_acts_for_the_login_of_a_session_that_runs_code_of_its_caller() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    queue.tenant("own").await;
    let other = queue.tenant("other").await;
    create_jobs_in_every_table(&queue, other).await;
    let other = stock(&queue, other, "known-to-the-other-tenant").await;
    let (mut wrong, mut called) = (Vec::new(), 0);
    for group in GROUPS {
        let login = Login::create(&queue, group).await;
        let client = login.client().await;
        admin.batch_execute(&format!("create schema bait authorization {}", login.name)).await.unwrap();
        client.batch_execute(BAIT).await.unwrap();
        for function in functions(&admin).await {
            if !function.is_granted_to(&admin, group).await {
                continue;
            }
            let call = function.call(&other);
            client.batch_execute("begin").await.unwrap();
            let (direct, _) = answer(&client, &call).await;
            client.batch_execute("rollback").await.unwrap();
            admin.batch_execute("begin").await.unwrap();
            let (borrowed, forged) = refreshed(&admin, &call).await;
            admin.batch_execute("rollback").await.unwrap();
            if direct != "answers" && borrowed == "answers" || forged > 0 {
                wrong.push(format!("{group}: {call} is {direct}, and {borrowed} with {forged} forged rows"));
            }
            called += 1;
        }
        drop(client);
        admin.batch_execute("drop schema bait cascade").await.unwrap();
        login.drop().await;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(called > 200, "only {called} calls");
}

/// What the call answers in a refresh by this session, and how many audit rows then have its login.
async fn refreshed(admin: &Client, call: &str) -> (String, i64) {
    let newest: i64 =
        admin.query_one("select coalesce(max(id), 0) from windlass.audit", &[]).await.unwrap().get(0);
    admin.execute("update bait.call set text = $1", &[&call]).await.unwrap();
    admin.batch_execute("refresh materialized view bait.view").await.unwrap();
    let answered = admin.query_one("select attempt from bait.view", &[]).await.unwrap().get(0);
    (answered, admin.query_one(FORGED, &[&newest]).await.unwrap().get(0))
}
