//! What people change with a login of their own is in the audit trail, once, and in the name of that login. The matrix goes over all
//! functions (see "changes rows without a row in the audit trail" in tenants.txt).

use serde_json::json;
use uuid::Uuid;
use windlass::admin::INSTALLATION;
use windlass::{Definition, NewJob};
use windlass_testing::{Login, TestQueue};

/// Action, actor, target and outcome of the rows since the last call.
async fn rows(queue: &TestQueue, after: &mut i64) -> Vec<(String, String, String, String)> {
    let query = "select id, action, actor, target, outcome from windlass.audit where id > $1 order by id";
    let rows = queue.client().await.query(query, &[&*after]).await.unwrap();
    *after = rows.last().map_or(*after, |row| row.get(0));
    rows.iter().map(|row| (row.get(1), row.get(2), row.get(3), row.get(4))).collect()
}

fn done(action: &str, actor: &str, target: &str) -> (String, String, String, String) {
    (action.to_owned(), actor.to_owned(), target.to_owned(), "done".to_owned())
}

/// Two acts on one target in one transaction are two rows.
#[tokio::test]
async fn repeated_acts_of_one_transaction_have_a_row_each() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let tenant = queue.tenant("acme").await;
    let role = Login::create(&queue, "windlass_operator").await;
    let client = role.client().await;
    let mut after = 0;
    rows(&queue, &mut after).await;
    let mut purges = String::from("begin;");
    for _ in 0..3 {
        let id = queue.enqueue(&NewJob::new("a").tenant(tenant)).await.unwrap().id;
        purges.push_str(&format!("select windlass.purge('{tenant}', '{{{id}}}');"));
    }
    client.batch_execute(&format!("{purges} commit")).await.unwrap();
    let expected = done("job.delete_many", &format!("login:{}", role.name), "1 job");
    assert_eq!(rows(&queue, &mut after).await, vec![expected; 3]);
    drop(client);
    role.drop().await;
}

/// Neither SET CONSTRAINTS, nor a setting, nor a savepoint leaves an act without a row.
#[tokio::test]
async fn no_statement_of_an_operator_leaves_an_act_without_a_row() {
    let queue = TestQueue::create().await;
    let tenant = queue.tenant("a").await;
    let role = Login::create(&queue, "windlass_operator").await;
    let client = role.client().await;
    let login = format!("login:{}", role.name);
    // An act that changes something each time.
    let set = format!(
        "select windlass.set_retention('{tenant}', '*', 'failed', (random() * 1000000000)::bigint, false)"
    );
    let set = set.as_str();
    let at_once = "set constraints all immediate";
    // The statements of a transaction, and the number of acts that it commits.
    let attempts = [
        (vec![set, at_once, "set local windlass.recorded = ''", set, set], 3),
        (vec![set, "set local windlass.recorded = '1 2 3 4 5 6 7 8 9'", set], 2),
        (vec![set, at_once, "set constraints all deferred", set], 2),
        (vec!["set local windlass.actor = ''", set, "set local windlass.actor = '{}'", set], 2),
        (vec![set, "savepoint s", set, at_once, "rollback to s"], 1),
        (vec!["savepoint s", set, "release s", "savepoint s", set, "rollback to s"], 1),
    ];
    let mut after = 0;
    for (statements, expected) in attempts {
        rows(&queue, &mut after).await;
        client.batch_execute(&format!("begin; {}; commit", statements.join("; "))).await.unwrap();
        let found = rows(&queue, &mut after).await;
        assert_eq!(found, vec![done("retention.set", &login, "*"); expected], "{statements:?}");
    }
    let admin = queue.client().await;
    let others = "select count(*) from windlass.audit where actor = $1 and role <> $2";
    let others: i64 = admin.query_one(others, &[&login, &role.name]).await.unwrap().get(0);
    assert_eq!(others, 0, "rows with a role that the login does not have");
    drop(client);
    role.drop().await;
}

/// An operator could write rows in anybody's name.
#[tokio::test]
async fn only_the_server_names_another_actor_than_its_login() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    for group in ["windlass_operator", "windlass_admin", "windlass_server"] {
        let tenant = queue.tenant(&group.replace('_', "-")).await;
        let role = Login::create(&queue, group).await;
        let client = role.client().await;
        let (login, local) = (format!("login:{}", role.name), format!("local:ada@{}", role.name));
        let names = ["user:ada", "login:postgres", "local:ada@postgres", &login, &local];
        for name in names {
            let calls = format!(
                "select windlass.record_audit('{tenant}', '{name}', 'r', '192.0.2.1', null, 'job.enqueue', 'a', 'done', null, null);
                 select windlass.record_audits('{tenant}', array['{name}'], array['r'], array['192.0.2.1'], array[null], 'job.enqueue',
                   array['a'], array[null]::jsonb[]);
                 select windlass.place_hold('{tenant}', null, 'user', '7', 'because', '{name}')"
            );
            client.batch_execute(&calls).await.unwrap();
        }
        let is_server = group == "windlass_server";
        let named = |name: &str| match is_server || name == login || name == local {
            true => name.to_owned(),
            false => format!("{login} as {name}"),
        };
        let wanted: Vec<String> = names.iter().flat_map(|name| [(); 2].map(|()| named(name))).collect();
        let query = "select actor, from_address from windlass.audit where tenant_id = $1 and action = 'job.enqueue' order by id";
        let rows = admin.query(query, &[&tenant]).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<String>>(), wanted, "{group}");
        let has_address = |row: &tokio_postgres::Row| row.get::<_, Option<String>>(1).is_some();
        assert!(rows.iter().all(|row| has_address(row) == is_server), "{group}");
        let query = "select created_by from windlass.legal_hold where tenant_id = $1 order by created_at";
        let rows = admin.query(query, &[&tenant]).await.unwrap();
        let wanted: Vec<String> = names.into_iter().map(named).collect();
        assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<String>>(), wanted, "{group}");
        drop(client);
        role.drop().await;
    }
}

/// A trigger names the person who created it.
#[tokio::test]
async fn only_the_server_names_the_creator_of_a_trigger() {
    let queue = TestQueue::create().await;
    let tenant = queue.tenant("a").await;
    queue.define(&Definition::new("plain")).await.unwrap();
    for (group, is_named) in [("windlass_operator", false), ("windlass_server", true)] {
        let role = Login::create(&queue, group).await;
        let client = role.client().await;
        let fields = json!({"label": group, "is_enabled": true, "trigger_type": "event", "event_name": "a", "conditions": {},
            "definition_key": "plain", "payload_template": {}, "dedupe_window_seconds": 0, "misfire": "skip", "misfire_max": 1,
            "misfire_window_seconds": 1, "misfire_grace_seconds": 1, "overlap": "allow", "jitter_seconds": 0,
            "created_by": Uuid::now_v7()});
        let create = format!("select windlass.create_trigger('{tenant}', '{fields}', null)");
        client.batch_execute(&create).await.unwrap();
        let query = "select created_by is not null from windlass.job_triggers where label = $1";
        let found: bool = queue.client().await.query_one(query, &[&group]).await.unwrap().get(0);
        assert_eq!(found, is_named, "{group}");
        drop(client);
        role.drop().await;
    }
}

#[tokio::test]
async fn what_an_operator_changes_with_sql_is_recorded_once() {
    let queue = TestQueue::create().await;
    let tenant = queue.tenant("a").await;
    let role = Login::create(&queue, "windlass_operator").await;
    let client = role.client().await;
    let login = format!("login:{}", role.name);
    let mut after = 0;
    rows(&queue, &mut after).await;

    client.batch_execute("select windlass.set_paused('q', true)").await.unwrap();
    assert_eq!(rows(&queue, &mut after).await, [done("queue.pause", &login, "q")]);
    let several = format!(
        "begin; select windlass.set_paused('q', false); select windlass.set_retention('{tenant}', '*', 'failed', 60, false); commit"
    );
    client.batch_execute(&several).await.unwrap();
    let both = [done("queue.resume", &login, "q"), done("retention.set", &login, "*")];
    assert_eq!(rows(&queue, &mut after).await, both);
    // What changes nothing, or is rolled back, leaves no row.
    let again = format!(
        "select windlass.set_retention('{tenant}', '*', 'failed', 60, false); select windlass.ensure_tenant('a', 'a', 1);
         begin; select windlass.set_paused('q', true); rollback"
    );
    client.batch_execute(&again).await.unwrap();
    assert_eq!(rows(&queue, &mut after).await, []);
    // What was denied is no act.
    let denied = format!(
        "begin; select windlass.set_paused('q', true);
         select windlass.record_audit('{INSTALLATION}', null, null, null, null, 'queue.pause', 'q', 'denied', null, null); commit"
    );
    client.batch_execute(&denied).await.unwrap();
    let found = rows(&queue, &mut after).await;
    assert_eq!((found.len(), &found[0]), (2, &done("queue.pause", &login, "q")));
    assert_eq!(found[1].3, "denied");
    drop(client);
    role.drop().await;
}

/// The library leaves the rows to the functions.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_operator_changes_with_the_library_is_recorded_once() {
    let queue = TestQueue::create().await;
    let role = Login::create(&queue, "windlass_operator").await;
    let login = format!("login:{}", role.name);
    let theirs = role.queue().await;
    let mut after = 0;
    rows(&queue, &mut after).await;
    theirs.set_paused("q", true).await.unwrap();
    let tenant: Uuid = theirs.ensure_tenant("b", "b", 1).await.unwrap();
    theirs.ensure_tenant("b", "b", 2).await.unwrap();
    theirs.delete_tenant(tenant, |_| ()).await.unwrap();
    let id = tenant.to_string();
    let wanted = [
        done("queue.pause", &login, "q"),
        done("tenant.create", &login, &id),
        done("tenant.change", &login, &id),
        done("tenant.delete", &login, &id),
    ];
    assert_eq!(rows(&queue, &mut after).await, wanted);
    drop(theirs);
    role.drop().await;
}

/// a superuser is a member of every role, also of the server's, which is trusted to record its acts.
#[tokio::test]
async fn what_a_superuser_changes_with_sql_is_recorded_with_the_login() {
    let queue = TestQueue::create().await;
    let tenant = queue.tenant("a").await;
    let client = queue.client().await;
    let name: String = client.query_one("select session_user::text", &[]).await.unwrap().get(0);
    let is_superuser: bool = client
        .query_one("select rolsuper from pg_roles where rolname = session_user", &[])
        .await
        .unwrap()
        .get(0);
    assert!(is_superuser);
    let mut after = 0;
    rows(&queue, &mut after).await;
    let acts = [
        ("windlass.set_paused('q', true)".to_owned(), "queue.pause", "q".to_owned()),
        (
            format!("windlass.set_retention('{tenant}', '*', 'failed', 60, false)"),
            "retention.set",
            "*".to_owned(),
        ),
        (format!("windlass.mark_tenant_deleting('{tenant}')"), "tenant.delete", tenant.to_string()),
    ];
    for role in ["none", "windlass_operator"] {
        client.batch_execute(&format!("set role {role}")).await.unwrap();
        for (act, action, target) in &acts {
            client.batch_execute(&format!("select {act}")).await.unwrap();
            let found = rows(&queue, &mut after).await;
            assert_eq!(found, [done(action, &format!("login:{name}"), target)], "{role}: {act}");
        }
        let named = format!(
            "select windlass.record_audit('{tenant}', 'user:ada', 'r', null, null, 'job.enqueue', 'a', 'done', null, null)"
        );
        client.batch_execute(&named).await.unwrap();
        let found = rows(&queue, &mut after).await;
        assert_eq!(found, [done("job.enqueue", &format!("login:{name} as user:ada"), "a")], "{role}");
        let undo = "reset role; update windlass.queues set is_paused = false; delete from windlass.retention;
            update windlass.tenants set status = 'active'";
        client.batch_execute(undo).await.unwrap();
    }
}
