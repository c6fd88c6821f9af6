//! Which functions need read committed: `docs/operating.md` lists them, each of them refuses another level, and for every
//! other function that changes something there is a reason why it does not have to.

use std::collections::BTreeSet;

use serde_json::json;
use windlass_testing::TestQueue;

use crate::support::Hand;

/// Why an old snapshot does no harm. A function that is new needs a reason here, or the check and a place in the list.
const REASONS: [(&str, &str); 9] = [
    (
        "it only reads, or reads and lets its caller decide, who applies the decision with a guard of its own",
        "active_lanes due_triggers find_token invitations_of limits_reached lock_member members_of next_due_ms password_resets_of
         pending_events pull_lost_jobs tokens_of verify_audit",
    ),
    (
        "an application's own transaction of any level: a row that others have changed fails it (40001), limits take turns
         (take_turn), and dependencies that an old snapshot cannot judge are left to the keeper",
        "cancel cancel_as cancel_many cancel_many_as emit enqueue enqueue_alike enqueue_as enqueue_as_many enqueue_many
         enqueue_routed enqueue_routed_many keeper_route lock_keys retry retry_as retry_many retry_many_as route_of unlock_keys",
    ),
    (
        "it deletes or updates the row of its fence, so that an attempt that has ended fails it (40001)",
        "fail finish hand_over pull_settle release settle settle_blocks settle_plain snooze",
    ),
    (
        "it moves or marks rows that it writes, so that a row that others have changed fails it (40001)",
        "accept_invitation_as_new answer_request change_definition change_tenant choose_tenant define delete_trigger dispatch_events
         end_session ensure_tenant heartbeat hold_event_back lead mark_tenant_deleting promote pull_touch release_hold
         remember_request remove_member retry_dispatch revoke_invitation revoke_password_reset revoke_token set_draining set_member_role set_paused
         set_retention",
    ),
    ("its limit takes turns (take_turn)", "create_invitation create_trigger"),
    ("a unique key decides", "create_definition create_tenant register_worker"),
    ("its limit is approximate at any level", "pull_register"),
    ("it only adds a row", "note_locked note_problem record_audit record_audits"),
    (
        "a late call changes no job: it shows the progress of an attempt that has ended, or reads an index",
        "report_progress summarize_times",
    ),
];

/// At another level, these reject only a token that they do not find: the snapshot may be older than the attempt.
const WITHOUT_A_LEASE: [&str; 4] = ["fail", "finish", "release", "snooze"];

/// The functions that the page lists.
fn listed() -> BTreeSet<String> {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating.md")).unwrap();
    let (_, list) = page.split_once("reject every other level (`WL021`):").expect("the page has the list");
    let (list, _) = list.split_once("\n\n").unwrap();
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[tokio::test]
async fn every_function_that_changes_something_refuses_an_old_snapshot_or_has_a_reason_not_to() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    // Something to fold, to seal and to sample.
    hand.define(json!({"key": "held"})).await;
    hand.enqueue("'held'").await;
    let query = "select p.proname::text, string_agg(case t.name when 'integer' then '1' else 'null::' || t.name end, ', ' order by a.ord)
          from pg_proc p
          left join lateral unnest(p.proargtypes::oid[]) with ordinality a (type, ord) on true
          left join lateral format_type(a.type, null) t (name) on true
         where p.pronamespace = 'windlass'::regnamespace and p.provolatile = 'v'
           and exists (select from aclexplode(p.proacl) g join pg_roles r on r.oid = g.grantee
                        where r.rolname like 'windlass\\_%' and g.grantee <> p.proowner)
         group by p.oid, p.proname";
    let mut refusing = BTreeSet::new();
    let mut others = BTreeSet::new();
    for row in hand.client.query(query, &[]).await.unwrap() {
        let (name, arguments) =
            (row.get::<_, String>(0), row.get::<_, Option<String>>(1).unwrap_or_default());
        let mut is_refused = true;
        for level in ["repeatable read", "serializable"] {
            hand.client.batch_execute(&format!("begin isolation level {level}")).await.unwrap();
            let answer = hand.client.batch_execute(&format!("select windlass.{name}({arguments})")).await;
            is_refused &= answer.is_err_and(|error| error.code().is_some_and(|code| code.code() == "WL021"));
            hand.client.batch_execute("rollback").await.unwrap();
        }
        if is_refused {
            refusing.insert(name)
        } else {
            others.insert(name)
        };
    }
    for name in WITHOUT_A_LEASE {
        refusing.remove(name);
        others.insert(name.to_owned());
    }
    assert_eq!(refusing, listed(), "docs/operating.md lists exactly those that refuse");
    let reasons: BTreeSet<String> =
        REASONS.iter().flat_map(|(_, names)| names.split_whitespace()).map(str::to_owned).collect();
    assert_eq!(others, reasons, "add the check and a place in the list, or a reason");
}
