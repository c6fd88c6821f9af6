//! Every function, as every role, for another tenant: what it answers is written down in tenants.txt, and nothing of the other
//! tenant is changed or returned. A function that is not in the file fails the test.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::json;
use tokio_postgres::{Client, SimpleQueryMessage};
use uuid::Uuid;
use windlass::NewJob;
use windlass_testing::{Login, TestQueue};

use super::calls::{About, functions};
use super::{GROUPS, live_a_little};

/// What only the other tenant's rows hold.
const MARK: &str = "known-to-the-other-tenant-only";

/// A row of everything that a tenant has and a function might show, with the mark in every text. The ids are that of the job, and the
/// names those that the calls use, so that the calls are about these rows.
const MARKED: &str = "
    insert into windlass.audit (tenant_id, actor, action, target, detail) values (:tenant, :mark, 'a', 'a', jsonb_build_object('text', :mark));
    insert into windlass.users (id, email, name, password_hash) values (:job, :mark || '@example.org', :mark, :mark);
    insert into windlass.members (tenant_id, user_id, role) values (:tenant, :job, 'viewer');
    insert into windlass.api_tokens (tenant_id, id, kind, name, secret_hash, role, created_by) values (:tenant, 'a', 'api', :mark, '\\x00', 'viewer', :mark);
    insert into windlass.invitations (tenant_id, id, email, role, secret_hash, created_by, expires_at)
      values (:tenant, :job, :mark || '@example.org', 'viewer', '\\x00', :mark, '2999-01-01Z');
    insert into windlass.job_triggers (tenant_id, id, label, trigger_type, event_name, definition_id, payload_template)
      select :tenant, :job, :mark, 'event', 'a', d.id, jsonb_build_object('text', :mark) from windlass.job_definitions d where d.key = 'unserved';
    insert into windlass.trouble (duty, tenant_id, subject, reason) values ('reap', :tenant, :mark, :mark);
    insert into windlass.retention (tenant_id, definition_key, status, keep_seconds) values (:tenant, :mark, 'failed', 1000000);
    insert into windlass.legal_hold (tenant_id, id, job_id, reason, created_by) values (:tenant, :job, gen_random_uuid(), :mark, :mark);
    insert into windlass.event (tenant_id, id, name, payload, emitted_at) values (:tenant, :job, :mark, jsonb_build_object('text', :mark), now());
    insert into windlass.event_dispatch (tenant_id, event_id, trigger_id, outcome, reason) values (:tenant, :job, :job, 'failed', :mark);
    insert into windlass.request_keys (tenant_id, request_key, fingerprint, status, answer)
      values (:tenant, 'unserved', '\\x00', 200, jsonb_build_object('text', :mark))";

/// The positive control: with the other tenant in force these show its mark, so that the others could.
const SHOW_IT: [&str; 2] = ["troubles", "tokens_of"];

/// These may act for the default tenant or the one in force, and for no other.
const BOUND: [&str; 2] = ["windlass_app", "windlass_reader"];

/// Every row of a tenant: how many there are in each table, and what they hold.
async fn fingerprint(admin: &Client, tenant: Uuid) -> String {
    let tables = "select string_agg(format('select %L || count(*) || coalesce(md5(string_agg(t::text, '','' order by t::text)), '''')
            from windlass.%I t where t.%I = %L', c.relname, c.relname, a.attname, $1::text), ' union all ' order by c.relname)
        from pg_class c join pg_attribute a on a.attrelid = c.oid
         and a.attname = case c.relname when 'tenants' then 'id' else 'tenant_id' end
       where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition";
    let tables: String = admin.query_one(tables, &[&tenant.to_string()]).await.unwrap().get(0);
    let rows = admin.query(&tables, &[]).await.unwrap();
    rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join(" ")
}

/// What a call is answered: the SQLSTATE of its refusal, or `answers` and the text of its rows.
pub(super) async fn outcome(client: &Client, in_force: &str, call: &str, end: &str) -> (String, String) {
    let begin = format!("begin; set local windlass.tenant_id = '{in_force}'");
    client.batch_execute(&begin).await.unwrap();
    let answer = client.simple_query(&format!("select r::text from {call} r")).await;
    let (said, text) = match answer {
        Err(error) => (error.code().map_or("broken", |code| code.code()).to_owned(), String::new()),
        Ok(messages) => {
            let rows = messages.iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            });
            ("answers".to_owned(), rows.collect::<Vec<_>>().join(" "))
        }
    };
    client.batch_execute(if said == "answers" { end } else { "rollback" }).await.unwrap();
    (said, text)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_function_reaches_another_tenant_than_the_one_in_force() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    let (own, other) = (queue.tenant("own").await, queue.tenant("other").await);
    let mut abouts = Vec::new();
    for tenant in [own, other] {
        live_a_little(&queue, tenant).await;
        let mark = if tenant == other { MARK } else { "own" };
        let job = NewJob::new("unserved").tenant(tenant).payload(&json!({"text": mark})).subject(mark, mark);
        let job = queue.enqueue(&job).await.unwrap().id;
        let lane = "select lane from windlass.route_of($1, 'unserved', null, null)";
        let lane = admin.query_one(lane, &[&tenant]).await.unwrap().get(0);
        abouts.push(About { tenant, job, lane });
    }
    let quoted =
        [(":tenant", other.to_string()), (":job", abouts[1].job.to_string()), (":mark", MARK.to_owned())];
    let marked = quoted
        .iter()
        .fold(MARKED.to_owned(), |text, (name, value)| text.replace(name, &format!("'{value}'")));
    admin.batch_execute(&marked).await.unwrap();
    let before = fingerprint(&admin, other).await;
    let (mut found, mut shown) = (BTreeSet::new(), BTreeSet::new());
    for group in GROUPS {
        let role = Login::create(&queue, group).await;
        let client = role.client().await;
        let (short, is_bound) = (group.trim_start_matches("windlass_"), BOUND.contains(&group));
        for function in functions(&admin).await {
            let (ours, theirs) = (function.call(&abouts[0]), function.call(&abouts[1]));
            // The housekeeping and the claims of our own processes go over all tenants, whichever is in force.
            let is_held = is_bound || function.takes_a_tenant();
            let end = if is_held { "commit" } else { "rollback" };
            let (foreign, text) = outcome(&client, &own.to_string(), &theirs, end).await;
            if foreign == "42501" {
                continue;
            }
            assert!(!is_held || !text.contains(MARK), "{short}: {theirs} shows another tenant's row");
            if outcome(&client, &other.to_string(), &theirs, "rollback").await.1.contains(MARK) {
                shown.insert(function.name.clone());
            }
            let (mine, _) = outcome(&client, &own.to_string(), &ours, "rollback").await;
            let (nobody, text) =
                outcome(&client, "", &theirs, if is_bound { "commit" } else { "rollback" }).await;
            assert!(!is_bound || !text.contains(MARK), "{short}: {theirs} without a tenant in force");
            let after = fingerprint(&admin, other).await;
            assert_eq!(after, before, "{short}: {theirs} changed another tenant's rows");
            let line = format!("own {mine}, other {foreign}, none in force {nobody}");
            found.insert(format!("{} as {short}: {line}", function.name));
        }
        drop(client);
        role.drop().await;
    }
    let hidden: Vec<_> = SHOW_IT.iter().filter(|name| !shown.contains(**name)).collect();
    assert!(hidden.is_empty(), "{hidden:?} show nothing to the tenant itself; {shown:?} do");
    compare(&found);
}

/// With tenants.txt, which `WINDLASS_BLESS=1` writes again below its reasons: the difference is what a reviewer looks at.
fn compare(found: &BTreeSet<String>) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/access/tenants.txt");
    let text = fs::read_to_string(&file).unwrap_or_default();
    let (reasons, written): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("# "));
    let mut written: BTreeSet<String> = written.into_iter().map(str::to_owned).collect();
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        let lines = reasons.iter().map(|line| (*line).to_owned()).chain(found.iter().cloned());
        fs::write(&file, lines.map(|line| line + "\n").collect::<String>()).unwrap();
        written.clone_from(found);
    }
    let new: Vec<_> = found.difference(&written).collect();
    let gone: Vec<_> = written.difference(found).collect();
    assert!(new.is_empty() && gone.is_empty(), "new: {new:#?}\ngone: {gone:#?}");
    // Whatever answers for another tenant's arguments says there why it may.
    let excused: BTreeSet<&str> = reasons
        .iter()
        .filter_map(|line| line.rsplit_once(": "))
        .flat_map(|(_, names)| names.split(' '))
        .collect();
    let answering: BTreeSet<&str> = found
        .iter()
        .filter(|line| line.contains("other answers"))
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(answering, excused, "reasons at the beginning of tenants.txt");
}
