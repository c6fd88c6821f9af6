//! The arguments of every function, by its name and the names and types of its parameters. Each call gets past the checks of its
//! arguments, so that a test sees the effect of the call.

use uuid::Uuid;

use super::stock::{About, secret_hash, worker_name};

pub(super) fn is_tenant(function: &str, name: &str) -> bool {
    // `after_tenant` says where the turns begin, and `most_tenants` is a number.
    (name.contains("tenant") && name != "after_tenant" && name != "most_tenants")
        || (name == "of_id" && function.contains("tenant"))
}

pub(super) fn value(function: &str, name: &str, kind: &str, about: &About) -> String {
    if is_absent(function, name) {
        return format!("null::{}", qualified(kind));
    }
    if let Some(element) = kind.strip_suffix("[]") {
        return match element {
            // Rows and the like: only the owner's own functions take them.
            element if element.contains('.') || element == "tid" => format!("null::{kind}"),
            element => format!("array[{}]", value(function, name, element, about)),
        };
    }
    let literal = |text: &str| format!("'{text}'::{}", qualified(kind));
    match kind {
        "uuid" => id(function, name, about)
            .map_or_else(|| "pg_catalog.gen_random_uuid()".to_owned(), |id| literal(&id.to_string())),
        "integer" => number(function, name, about).to_string(),
        "bigint" if name == "after_seqs" => literal("0"),
        "bigint" if name == "seqs" => literal(&about.held_block.to_string()),
        "smallint" if name == "positions" => literal("0"),
        "smallint" => literal("3"),
        "bigint" | "real" => literal("1"),
        "double precision" => literal("0"),
        "boolean" => (matches!(function, "set_draining" | "set_paused") || name == "is_waiting").to_string(),
        "jsonb" => literal(json(function, name)),
        "json" => literal("{}"),
        "bytea" => literal(&bytes(function, name, about)),
        "interval" => literal("1 s"), // also a lease
        "timestamp with time zone" if name == "deadline" => literal("2999-01-01Z"),
        "timestamp with time zone" => literal("2026-01-01Z"),
        "text" => literal(&text(function, name, about)),
        _ => format!("null::{}", qualified(kind)),
    }
}

/// A type with its schema.
fn qualified(kind: &str) -> String {
    let short = match kind.trim_end_matches("[]") {
        "integer" => "int4",
        "bigint" => "int8",
        "smallint" => "int2",
        "real" => "float4",
        "double precision" => "float8",
        "boolean" => "bool",
        "timestamp with time zone" => "timestamptz",
        other => other,
    };
    let dimensions = if kind.ends_with("[]") { "[]" } else { "" };
    if short.contains('.') { kind.to_owned() } else { format!("pg_catalog.{short}{dimensions}") }
}

fn is_absent(function: &str, name: &str) -> bool {
    match function {
        // Without `extra` a job is enqueued by the one function that does not set its search path.
        _ if function.starts_with("enqueue") => ["depends_on", "extra", "delay"].contains(&name),
        "create_session" => name == "of_token",
        "change_definition" => name == "expected",
        "create_trigger" => name == "next_due",
        "update_trigger" | "delete_trigger" => name == "next_due" || name == "expected",
        "place_hold" => name == "on_type" || name == "on_id",
        "retry_dispatch" => name == "reason",
        "dispatch_events" => ["reasons", "afters", "untils"].contains(&name),
        "fire_triggers" => name == "reasons" || name == "lanes",
        "run_trigger" => name == "dues",
        _ => false,
    }
}

/// None: a new id.
fn id(function: &str, name: &str, about: &About) -> Option<Uuid> {
    let is_of_held = [
        "settle",
        "settle_blocks",
        "settle_plain",
        "pull_settle",
        "reap",
        "pull_reap",
        "pull_heartbeat",
        "pull_held",
        "hand_over",
        "report_progress",
        "write_log",
        "unclaim",
        "pull_unclaim",
        "extend",
        "finish",
        "fail",
        "snooze",
        "release",
    ]
    .contains(&function);
    match (function, name) {
        _ if is_tenant(function, name) => Some(about.tenant),
        _ if function.starts_with("enqueue") => None,
        ("claim" | "pull_claim", _) | ("accept_invitation_as_new", "account") => None,
        ("dispatch_events" | "fire_triggers" | "run_trigger" | "retry_dispatch", "job" | "jobs") => None,
        ("change_definition" | "shown_definition", "of_id") => Some(about.definition),
        (_, "job" | "jobs") if function.starts_with("retry") => Some(about.done),
        ("fire_triggers" | "run_trigger", "trigger" | "triggers") => Some(about.done),
        ("event_triggers", "afters") => Some(Uuid::nil()),
        _ if is_of_held => Some(about.held),
        _ => Some(about.job),
    }
}

fn number(function: &str, name: &str, about: &About) -> i32 {
    match (function, name) {
        ("unclaim" | "settle_blocks" | "settle_plain", "lanes") => about.held_lane,
        (_, "lane" | "lanes") => about.lane,
        ("unclaim", "by_worker") | ("reap", "workers") | (_, "only_workers") => about.held_by,
        (_, "by_worker" | "to_worker" | "worker" | "workers") => about.worker,
        (_, "late_ms" | "in_epoch") => 0,
        ("take", "most") => 100,
        // Enough for the rows of all tenants.
        (_, "most" | "most_tenants" | "most_bytes") => 100_000,
        (_, "seconds") => 60,
        _ => 1,
    }
}

fn json(function: &str, name: &str) -> &'static str {
    match (function, name) {
        ("finish", "next") => "[]",
        (_, "uniqueness") => r#""active""#,
        ("define" | "create_definition", _) => r#"{"key": "made"}"#,
        ("change_definition", _) => r#"{"description": "made"}"#,
        ("create_tenant", _) => r#"{"slug": "made", "name": "made"}"#,
        ("change_tenant", _) => r#"{"weight": 2}"#,
        ("create_token" | "rotate_token", _) => {
            r#"{"id": "made", "kind": "api", "name": "made", "role": "viewer", "created_by": "made"}"#
        }
        ("create_invitation", _) => {
            r#"{"email": "made@example.org", "role": "viewer", "created_by": "made"}"#
        }
        ("create_trigger" | "update_trigger", _) => {
            r#"{"label": "made", "is_enabled": true, "trigger_type": "event", "event_name": "made", "conditions": {},
                "definition_key": "unserved", "payload_template": {}, "dedupe_window_seconds": 0, "misfire": "skip", "misfire_max": 1,
                "misfire_window_seconds": 1, "misfire_grace_seconds": 1, "overlap": "allow", "jitter_seconds": 0}"#
        }
        _ => "{}",
    }
}

fn bytes(function: &str, name: &str, about: &About) -> String {
    match (function, name) {
        (
            "create_session"
            | "create_token"
            | "rotate_token"
            | "create_invitation"
            | "create_password_reset",
            "hash",
        ) => "\\x01".to_owned(),
        ("accept_invitation_as_new" | "choose_tenant", "hash") => secret_hash(about.done),
        _ => secret_hash(about.job),
    }
}

fn text(function: &str, name: &str, about: &About) -> String {
    match (function, name) {
        (_, "source") => "manual".to_owned(),
        (_, "if_unmet") => "run".to_owned(),
        (_, "trace") => "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned(),
        (_, "queue" | "queues") => "default".to_owned(),
        (_, "outcome") => "done".to_owned(),
        (_, "act") => "job.enqueue".to_owned(),
        (_, "for_status") => "failed".to_owned(),
        (_, "new_role") => "operator".to_owned(),
        (_, "of_email") => format!("{}@example.org", about.mark),
        (_, "compared_hash" | "old_hash") | ("purge_subject", _) => about.mark.to_owned(),
        ("create_token" | "find_token" | "revoke_token" | "rotate_token" | "tokens_of", "of_id") => {
            about.job.to_string()
        }
        ("set_draining" | "pull_stop", "worker_id") => worker_name(about.tenant, "idle"),
        ("lead", "of_duty") => "schedule".to_owned(),
        ("answer_request", "with_key") => "unanswered".to_owned(),
        _ if name.contains("key") => "unserved".to_owned(),
        _ => "a".to_owned(),
    }
}
