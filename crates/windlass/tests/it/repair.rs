//! `migrate` repairs what somebody changed, and the doctor finds it before.

use windlass::setup::{Finding, Migrated, Severity, examine, pending};
use windlass::{Error, migrate};
use windlass_testing::{TestQueue, settings};

async fn dangers(queue: &TestQueue) -> Vec<Finding> {
    let findings = examine(&settings(queue.url())).await.unwrap();
    findings.into_iter().filter(|one| one.check == "schema" && one.severity != Severity::Fine).collect()
}

/// Each change, and how the doctor and the migration name it.
const CHANGES: [(&str, &str); 19] = [
    ("alter table windlass.job disable row level security", "table job was changed"),
    ("alter table windlass.job force row level security", "table job was changed"),
    ("alter table windlass.job owner to windlass", "table job belongs to windlass"),
    ("alter schema windlass owner to windlass", "schema windlass belongs to windlass"),
    ("alter function windlass.claim owner to windlass", "function claim belongs to windlass"),
    ("drop policy tenant_reads_own on windlass.job", "policy tenant_reads_own on job is missing"),
    ("create policy open on windlass.job using (true)", "policy open on job is not part of this release"),
    (
        "alter policy tenant_reads_own on windlass.job using (true)",
        "policy tenant_reads_own on job was changed",
    ),
    ("grant select on windlass.api_tokens to windlass_app", "table api_tokens was changed"),
    (
        "grant select (secret_hash) on windlass.api_tokens to public",
        "columns api_tokens is not part of this release",
    ),
    ("revoke select on windlass.jobs from windlass_app", "view jobs was changed"),
    ("grant execute on function windlass.find_token to public", "function find_token was changed"),
    (
        "drop function windlass.fold_tallies",
        "function fold_tallies(most integer, OUT moved integer, OUT has_more boolean) is missing",
    ),
    ("alter function windlass.settle security invoker", "function settle was changed"),
    ("alter function windlass.settle leakproof", "function settle was changed"),
    (
        "create rule quiet as on insert to windlass.audit where new.action like 'token.%' do instead nothing",
        "rule quiet on audit is not part of this release",
    ),
    ("alter table windlass.audit disable trigger append_only", "trigger append_only on audit was changed"),
    ("drop trigger append_only on windlass.audit", "trigger append_only on audit is missing"),
    (
        "create trigger t before insert on windlass.api_tokens for each row execute function windlass.refuse_change()",
        "trigger t on api_tokens is not part of this release",
    ),
];

/// What the doctor finds, and only an operator can undo.
const OTHER_CHANGES: [(&str, &str); 9] = [
    (
        "alter table windlass.tenants drop constraint tenants_slug_form",
        "constraint tenants_slug_form on tenants is missing",
    ),
    ("drop index windlass.audit_by_id", "index audit_by_id is missing"),
    ("alter table windlass.audit alter xid set default '1'", "column audit.xid was changed"),
    ("alter table windlass.users alter email drop not null", "column users.email was changed"),
    ("alter table windlass.users add column note text", "column users.note is not part of this release"),
    (
        "create table windlass.mine (); alter table windlass.mine owner to windlass_owner",
        "table mine is not part of this release",
    ),
    (
        "create role LOGIN; grant select on windlass.users to LOGIN",
        "privilege select of LOGIN on users is not part of this release",
    ),
    (
        "create role LOGIN; grant execute on function windlass.write_audit to LOGIN",
        "privilege execute of LOGIN on write_audit() is not part of this release",
    ),
    (
        "create role LOGIN; grant create on schema windlass to LOGIN",
        "privilege create of LOGIN on schema windlass is not part of this release",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_only_an_operator_can_undo_is_found_and_does_not_stop_a_migration() {
    for (change, named) in OTHER_CHANGES {
        let login = format!("r_{}", uuid::Uuid::now_v7().simple());
        let (change, named) = (change.replace("LOGIN", &login), named.replace("LOGIN", &login));
        let queue = TestQueue::create().await;
        let client = queue.client().await;
        client.batch_execute(&change).await.unwrap_or_else(|error| panic!("{change}: {error:?}"));
        let found = dangers(&queue).await;
        assert!(found.iter().any(|one| one.found.contains(&named)), "{change}: {found:#?}");
        assert_eq!(migrate(&settings(queue.url())).await.unwrap(), Migrated::default(), "{change}");
        if change.starts_with("create role") {
            client.batch_execute(&format!("drop owned by {login}; drop role {login}")).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_policies_privileges_and_functions_are_verified_and_repaired() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let fresh = windlass::internals::catalog_lines(&settings(queue.url())).await.unwrap();
    assert!(dangers(&queue).await.is_empty());
    for (change, named) in CHANGES {
        client.batch_execute(change).await.unwrap_or_else(|error| panic!("{change}: {error:?}"));
        let found = dangers(&queue).await;
        assert!(found.iter().any(|one| one.found.contains(named)), "{change}: {found:#?}");
        let waiting = pending(&settings(queue.url())).await.unwrap();
        assert!(waiting.repairs.iter().any(|one| one == named), "{change}: {waiting:?}");
        let migrated =
            migrate(&settings(queue.url())).await.unwrap_or_else(|error| panic!("{change}: {error}"));
        assert_eq!(migrated.repaired, waiting.repairs, "{change}");
        assert!(!migrated.functions_installed && migrated.applied.is_empty(), "{migrated:?}");
        assert!(dangers(&queue).await.is_empty(), "{change}");
        assert_eq!(
            windlass::internals::catalog_lines(&settings(queue.url())).await.unwrap(),
            fresh,
            "{change}"
        );
        assert_eq!(migrate(&settings(queue.url())).await.unwrap(), Migrated::default(), "{change}");
    }
}

/// Nothing of ours is dropped that may hold data or be in use.
#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_we_do_not_have_is_reported_and_kept() {
    let queue = TestQueue::create().await;
    let add = "create function windlass.mine() returns integer language sql as 'select 1';
               alter function windlass.mine owner to windlass_owner; revoke all on function windlass.mine from public";
    queue.client().await.batch_execute(add).await.unwrap();
    assert!(pending(&settings(queue.url())).await.unwrap().is_nothing());
    let found = dangers(&queue).await;
    assert!(found.len() == 1 && found[0].severity == Severity::Warning, "{found:#?}");
    assert_eq!(found[0].found, "function mine is not part of this release");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_table_is_not_repaired_silently() {
    let queue = TestQueue::create().await;
    queue.client().await.batch_execute("drop table windlass.leader cascade").await.unwrap();
    let refused = migrate(&settings(queue.url())).await.unwrap_err();
    assert!(
        matches!(&refused, Error::NotRepaired { objects } if objects.contains("table leader is missing")),
        "{refused}"
    );
}
