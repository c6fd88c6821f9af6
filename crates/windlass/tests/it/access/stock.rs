//! A tenant with a row of everything, so that a call with valid arguments has something to act on and to show.

use std::time::Duration;

use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::{Definition, NewJob};
use windlass_testing::TestQueue;

/// What the arguments of a call are about.
pub(super) struct About {
    pub(super) tenant: Uuid,
    /// A text that only rows of this tenant hold.
    pub(super) mark: &'static str,
    /// A queued job. Its id is also that of the user, the event, the event trigger, the token and the invitation.
    pub(super) job: Uuid,
    pub(super) lane: i32,
    /// A running job of a worker whose lease has expired. Its id is also the token of the attempt.
    pub(super) held: Uuid,
    pub(super) held_lane: i32,
    pub(super) held_block: i64,
    pub(super) held_by: i32,
    /// A canceled job. Its id is also that of the schedule.
    pub(super) done: Uuid,
    pub(super) definition: Uuid,
    /// A worker that holds nothing.
    pub(super) worker: i32,
}

impl About {
    /// Of this tenant, but of nothing that exists.
    pub(super) fn nothing(tenant: Uuid) -> Self {
        let [job, held, done, definition] = [(); 4].map(|()| Uuid::new_v4());
        let (lane, held_lane, held_block, held_by, worker) = (1, 1, 1, 1, 1);
        let mark = "nothing";
        Self { tenant, mark, job, lane, held, held_lane, held_block, held_by, done, definition, worker }
    }
}

/// The ids and names are those of the arguments (see `arguments.rs`), and every text holds the mark.
const ROWS: &str = "
    delete from windlass.legal_hold where tenant_id = :tenant;
    insert into windlass.audit (tenant_id, actor, action, target, detail) values (:tenant, :mark, 'a', 'a', jsonb_build_object('text', :mark));
    insert into windlass.users (id, email, name, password_hash) values (:job, :mark || '@example.org', :mark, :mark);
    insert into windlass.members (tenant_id, user_id, role) values (:tenant, :job, 'viewer');
    insert into windlass.sessions (secret_hash, user_id, chosen_tenant, expires_at) values (:hash_of_job, :job, :tenant, '2999-01-01Z'),
      (:hash_of_done, :job, null, '2999-01-01Z');
    insert into windlass.password_resets (user_id, by_tenant, secret_hash, created_by, expires_at)
      values (:job, :tenant, :hash_of_job, :mark, '2999-01-01Z');
    insert into windlass.api_tokens (tenant_id, id, kind, name, secret_hash, role, created_by)
      values (:tenant, :job, 'api', :mark, :hash_of_job, 'viewer', :mark),
             (:tenant, :done, 'api', :mark, :hash_of_done, 'viewer', :mark);
    insert into windlass.invitations (tenant_id, id, email, role, secret_hash, created_by, expires_at)
      values (:tenant, :job, :mark || '@example.org', 'viewer', :hash_of_job, :mark, '2999-01-01Z'),
             (:tenant, :done, 'new-' || :mark || '@example.org', 'viewer', :hash_of_done, :mark, '2999-01-01Z');
    insert into windlass.job_triggers (tenant_id, id, label, trigger_type, event_name, definition_id, payload_template)
      values (:tenant, :job, :mark, 'event', 'a', :definition, jsonb_build_object('text', :mark));
    insert into windlass.job_triggers (tenant_id, id, label, trigger_type, cron_expr, timezone, definition_id, payload_template, next_due_at)
      values (:tenant, :done, :mark, 'schedule', '* * * * *', 'UTC', :definition, jsonb_build_object('text', :mark), '2026-01-01Z');
    insert into windlass.problem (duty, tenant_id, subject, reason) values ('reap', :tenant, :mark, :mark);
    insert into windlass.retention (tenant_id, definition_key, status, keep_seconds) values (:tenant, 'unserved', 'succeeded', 1000000);
    insert into windlass.legal_hold (tenant_id, id, job_id, reason, created_by) values (:tenant, :job, gen_random_uuid(), :mark, :mark);
    insert into windlass.event (tenant_id, id, name, payload, emitted_at)
      values (:tenant, :job, :mark, jsonb_build_object('text', :mark), now() - interval '1 h');
    insert into windlass.event_pending (tenant_id, event_id, seq) values (:tenant, :job, 0);
    insert into windlass.event_dispatch (tenant_id, event_id, trigger_id, outcome, reason) values (:tenant, :job, :job, 'failed', :mark);
    insert into windlass.request_keys (tenant_id, request_key, fingerprint, status, answer)
      values (:tenant, 'unserved', :hash_of_job, 200, jsonb_build_object('text', :mark)),
             (:tenant, 'unanswered', :hash_of_job, null, null);
    insert into windlass.pull_lease (tenant_id, job_id, attempt, token, worker, lease_seconds, expires_at, times_out_at)
      values (:tenant, :held, 1, :held, :held_by, 60, now() - interval '1 h', now() + interval '1 h');
    update windlass.job_workers set lease_expires_at = now() - interval '1 h' where id = :held_by;
    update windlass.expiry set expires_at = now() - interval '1 h' where tenant_id = :tenant and job_id = :late;
    insert into windlass.audit_heads (tenant_id, position, hash) values (:tenant, 1000000, '\\x00')
      on conflict (tenant_id) do update set position = excluded.position";

/// Nothing of it stays for long where a keeper runs.
pub(super) async fn stock(queue: &TestQueue, tenant: Uuid, mark: &'static str) -> About {
    let admin = queue.client().await;
    for key in ["unserved", "held"] {
        queue.define(&Definition::new(key).start_deadline(Duration::from_secs(3600))).await.unwrap();
    }
    let new = |key: &str| NewJob::new(key).tenant(tenant).payload(&json!({"text": mark})).subject(mark, mark);
    let lane = async |key: &str| -> i32 {
        let query = "select lane from windlass.route_of($1, $2, null, null)";
        admin.query_one(query, &[&tenant, &key]).await.unwrap().get(0)
    };
    let (lane, held_lane) = (lane("unserved").await, lane("held").await);
    let done = queue.enqueue(&new("unserved")).await.unwrap().id;
    queue.cancel(tenant, done).await.unwrap();
    let late = queue.enqueue(&new("unserved").delay(Duration::from_millis(1))).await.unwrap().id;
    let held = queue.enqueue(&new("held")).await.unwrap().id;
    let job = queue.enqueue(&new("unserved")).await.unwrap().id;
    let (worker, held_by) = (register(&admin, tenant, "idle").await, register(&admin, tenant, "lost").await);
    let claim = "select job_id, block from windlass.claim($1, $2, array[$3::integer], array[0::bigint], array[1], 0, true)";
    let claimed = admin.query_one(claim, &[&held_by, &held, &held_lane]).await.unwrap();
    assert_eq!(claimed.get::<_, Uuid>(0), held);
    let definition = "select id from windlass.job_definitions where key = 'unserved'";
    let definition = admin.query_one(definition, &[]).await.unwrap().get(0);
    let held_block = claimed.get(1);
    let about =
        About { tenant, mark, job, lane, held, held_lane, held_block, held_by, done, definition, worker };
    let values = [
        (":hash_of_job", secret_hash(job)),
        (":hash_of_done", secret_hash(done)),
        (":held_by", held_by.to_string()),
        (":tenant", tenant.to_string()),
        (":mark", mark.to_owned()),
        (":job", job.to_string()),
        (":done", done.to_string()),
        (":held", held.to_string()),
        (":late", late.to_string()),
        (":definition", definition.to_string()),
    ];
    let rows =
        values.iter().fold(ROWS.to_owned(), |text, (name, value)| text.replace(name, &format!("'{value}'")));
    admin.batch_execute(&rows).await.unwrap();
    about
}

/// The hash of the secret that belongs to this id, as a literal of the type bytea.
pub(super) fn secret_hash(id: Uuid) -> String {
    format!("\\x{}", id.simple())
}

/// The name of a pull worker of this tenant.
pub(super) fn worker_name(tenant: Uuid, name: &str) -> String {
    format!("{name}@{tenant}")
}

async fn register(admin: &Client, tenant: Uuid, name: &str) -> i32 {
    let register = "select windlass.register_worker($1, 'h', '', '{}', '{}', 86400, '{}')";
    admin.query_one(register, &[&worker_name(tenant, name)]).await.unwrap().get(0)
}
