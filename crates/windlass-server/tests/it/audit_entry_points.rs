//! Every action through every entry point: the HTTP API, the forms of the UI, the command line with a server and with a database,
//! and the library. For every caller and entry point the audit trail is the same: one row with the same action, the id of the
//! changed object, the same trail and outcome, and the same values before and after.
//!
//! The actions come from [`Action::ALL`], the routes from the route table and the commands from the command line, so a new one
//! fails here until it is performed. `entry_points.txt` lists which entry points have which action.

mod api;
mod cli;
mod library;
mod web;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use reqwest::Method;
use serde_json::Value;
use windlass::admin::Action;
use windlass_server::auth::Permission;
use windlass_server::cli::tree;
use windlass_server::http::table;

use crate::cli::commands::commands;
use crate::cli::{Ran, windlass};
use world::World;

/// Ways to act.
const ENTRY_POINTS: [&str; 5] =
    ["API", "form", "command with a server", "command with a database", "library"];

/// Routes that change nothing which is recorded, or that repeat another route.
const NOT_PERFORMED: [&str; 6] = [
    // Only read.
    "/api/v1/jobs/triggers/dry-run",
    "/api/v1/jobs/triggers/preview",
    "/api/v1/admin/audit/verify",
    "/ui/triggers/dry-run",
    // Sets a cookie.
    "/ui/theme",
    // The verb of `/api/v1/events`, for services that sign their requests: hooks.rs.
    "/api/v1/hooks/{hook}",
];

/// Commands that only read, serve, or prepare a database; the doctor's repairs and migrations are not actions of a caller.
const NOT_ACTIONS: [&str; 30] = [
    "audit head",
    "audit list",
    "audit verify",
    "completions",
    "config check",
    "config example",
    "definitions diff",
    "definitions list",
    "doctor",
    "holds list",
    "jobs list",
    "jobs show",
    "jobs tail",
    "jobs wait",
    "keeper",
    "migrate",
    "openapi",
    "queues list",
    "retention list",
    "serve",
    "summary",
    "tenants list",
    "tokens list",
    "top",
    "triggers list",
    "triggers preview",
    "triggers show",
    "up",
    "worker",
    "workers list",
];

async fn perform(world: &World, entry: &str, action: Action) -> Option<String> {
    match entry {
        "API" => api::perform(world, action).await,
        "form" => web::perform(world, action).await,
        "command with a server" => cli::perform(world, &world.to_server(), action).await,
        "command with a database" => cli::perform(world, &world.to_database(), action).await,
        _ => library::perform(world, action).await,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_entry_point_records_an_action_the_same_way() {
    let world = World::create().await;
    let mut wrong = Vec::new();
    let mut performed_by = String::new();
    for action in Action::ALL.iter().copied().filter(|action| !action.is_only_denied()) {
        let mut first: Option<(&str, Value)> = None;
        let mut entries = Vec::new();
        for entry in ENTRY_POINTS {
            let Some(target) = perform(&world, entry, action).await else { continue };
            entries.push(entry);
            let rows = world.rows().await;
            let [row] = &rows[..] else {
                wrong.push(format!("{action} by {entry}: {} rows: {rows:?}", rows.len()));
                continue;
            };
            if (row.action.as_str(), &row.target) != (action.as_str(), &target) {
                wrong.push(format!("{action} of {target} by {entry} is recorded as {row:?}"));
            }
            let row = row.comparable();
            match &first {
                None => first = Some((entry, row)),
                Some((other, expected)) if *expected != row => {
                    wrong.push(format!("{action}:\n  {entry}: {row}\n  {other}: {expected}"));
                }
                Some(_) => {}
            }
        }
        let _ = writeln!(performed_by, "{action}: {}", entries.join(", "));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/audit_entry_points/entry_points.txt");
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        std::fs::write(&file, &performed_by).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap();
    assert_eq!(
        performed_by, expected,
        "an entry point has another action: WINDLASS_BLESS=1 writes the table again"
    );

    let performed = world.performed();
    let missing: Vec<String> = table()
        .into_iter()
        .filter(|route| route.method != Method::GET && route.permission != Permission::Work)
        .filter(|route| !NOT_PERFORMED.contains(&route.path))
        .map(|route| format!("{} {}", route.method, route.path))
        .filter(|route| !performed.contains(route))
        .collect();
    assert!(missing.is_empty(), "routes that no action here uses: {missing:#?}");

    let all = commands(&tree(), &[]);
    let leaves =
        all.iter().filter(|(_, command)| !command.has_subcommands()).map(|(words, _)| words.join(" "));
    let unknown: BTreeSet<String> = leaves.filter(|words| !NOT_ACTIONS.contains(&words.as_str())).collect();
    assert_eq!(
        world.commands(),
        unknown,
        "the commands that change something are those that an action here uses"
    );
}

/// One job is recorded as one job, and several as several, also if a form has selected one and a command names two.
#[tokio::test(flavor = "multi_thread")]
async fn a_form_and_a_command_record_the_same_jobs_the_same_way() {
    let world = World::create().await;
    for (verb, count) in [("cancel", 1), ("retry", 1), ("cancel", 2), ("retry", 2)] {
        let mut rows = Vec::new();
        for entry in ["form", "command"] {
            let mut ids = Vec::new();
            for _ in 0..count {
                let id = world.job().await;
                if verb == "retry" {
                    world.cancel(id).await;
                }
                ids.push(id.to_string());
            }
            if entry == "form" {
                let ids = ids.iter().map(|id| ("id", id.as_str()));
                let fields: Vec<_> = ids.chain([("act", verb)]).collect();
                world.form("/ui/jobs/act", &fields).await;
            } else {
                world.mark().await;
                let words: Vec<&str> =
                    ["jobs", verb].into_iter().chain(ids.iter().map(String::as_str)).collect();
                let output = windlass(&words).args(world.to_server()).output().await.unwrap();
                Ran::of(output).expect(0);
            }
            let of_jobs = world.rows().await;
            let targets =
                of_jobs.iter().map(|row| ids.iter().fold(row.target.clone(), |t, id| t.replace(id, "ID")));
            let actions = of_jobs.iter().map(|row| row.action.clone());
            rows.push(actions.zip(targets).collect::<Vec<_>>());
        }
        let expected = match count {
            1 => (format!("job.{verb}"), "ID".to_owned()),
            _ => (format!("job.{verb}_many"), format!("{count} jobs")),
        };
        assert_eq!(rows, [[expected.clone()], [expected]]);
    }
}

/// Functions that a caller's transaction may use without a row: they only read, or store the response of a request.
const UNRECORDED: [&str; 16] = [
    "commit",
    "now",
    "job",
    "remember_request",
    "answer_request",
    "matching",
    "cancelable",
    "retryable",
    "trigger",
    "definition",
    "definitions",
    "tenant_record",
    "members",
    "lock_member",
    "lock_link_creator",
    "token",
];

/// Calls by which a verb writes its row, notes that the function of the database did, or leaves it to another verb.
const RECORDS: [&str; 5] =
    ["self.record(", "self.record_if(", "self.was_recorded()", "self.set_retention_by_name(", "self.purge("];

#[test]
fn every_verb_of_a_callers_transaction_records_itself() {
    let mut verbs = BTreeMap::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../windlass/src/control");
    collect_verbs(&folder, &mut verbs);
    assert!(verbs.len() > 40, "{verbs:?}");
    for (name, body) in verbs {
        let is_recorded = RECORDS.iter().any(|call| body.contains(call));
        let may_be_silent = UNRECORDED.contains(&name.as_str());
        assert!(
            is_recorded != may_be_silent,
            "`Acting::{name}` does not record itself, or need not be listed"
        );
    }
}

/// The methods of `Acting` that others can call, with their text.
fn collect_verbs(folder: &Path, verbs: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_verbs(&path, verbs);
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        for block in text.split("\nimpl Acting {\n").skip(1) {
            let block = block.split("\n}\n").next().unwrap();
            for function in block.split("\n    pub async fn ").skip(1) {
                let name = function.split('(').next().unwrap().to_owned();
                let body = function.split("\n    }\n").next().unwrap().to_owned();
                verbs.insert(name, body);
            }
        }
    }
}
