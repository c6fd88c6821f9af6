//! What the parts may do: rules only decide, only the store contains SQL, the API and the pages are separate. Which part of the
//! library imports which is checked by `rooms`.

use crate::rule::{Place, Rule};
use crate::source::{starts, words};
use crate::tree::{File, LIBRARY, Tree};

pub(crate) const RULES: &[&Rule] = &[&PURE, &NO_SQL_ABOVE_THE_STORE, &API_AND_PAGES_STAND_APART];

/// They decide; others act.
const PURE_MODULES: &[&str] = &["model", "text", "lane/fair"];

/// The store contains the statements of the product, and setup those that create the schema.
const SPEAK_SQL: &[&str] = &["store", "setup"];

/// The same, in the crate of the server.
const SERVER: &str = "crates/windlass-server/src/";

const PURE: Rule = Rule {
    name: "a pure module takes its inputs as arguments and touches nothing",
    fix: "let the caller await, log, read the clock or spawn, and pass the value in",
    find: |tree| {
        let effects = [".await", "tokio", "tracing", "metrics::", "deadpool_postgres", "::now", "spawn("];
        let pure = tree.rust().filter(|(file, _)| is_in(file, LIBRARY, PURE_MODULES) && !file.is_test());
        pure.flat_map(|(file, source)| {
            effects.into_iter().flat_map(move |effect| {
                // A pattern that starts with punctuation has a name to its left; one that starts with a name must not.
                let named = effect.starts_with(|letter: char| letter.is_alphabetic());
                let found: Vec<usize> = if named {
                    starts(&source.code, effect).collect()
                } else {
                    source.code.match_indices(effect).map(|(offset, _)| offset).collect()
                };
                found
                    .into_iter()
                    // A test may measure time.
                    .filter(|offset| !source.is_test(*offset))
                    .map(move |offset| file.place_at(offset, format!("`{effect}` in a pure module")))
            })
        })
        .collect()
    },
    caught: &[
        &[("crates/windlass/src/model/job/backoff.rs", "async fn a() { b().await; }\n")],
        &[("crates/windlass/src/model/job.rs", "use tokio::time::Duration;\n")],
        &[("crates/windlass/src/model/tenant.rs", "use tokio_postgres::types::ToSql;\n")],
        &[("crates/windlass/src/model/cron.rs", "fn a() { tracing::info!(\"due\"); }\n")],
        &[("crates/windlass/src/text/redact.rs", "fn a() { metrics::counter!(\"a\"); }\n")],
        &[("crates/windlass/src/model/trigger.rs", "fn a() -> SystemTime { SystemTime::now() }\n")],
        &[("crates/windlass/src/lane/fair.rs", "let began = Instant::now();\n")],
        &[("crates/windlass/src/model/template/value.rs", "let now = Timestamp::now;\n")],
        &[("crates/windlass/src/model/definition.rs", "std::thread::spawn(|| {});\n")],
    ],
    passes: &[
        &[(
            "crates/windlass/src/model/job/backoff.rs",
            "/// Never `.await`.\nfn due(now: Timestamp) -> Timestamp { now }\n",
        )],
        &[("crates/windlass/src/worker/feed.rs", "async fn a() { b().await; }\n")],
        &[("crates/windlass/src/text/json.rs", "#[cfg(test)]\nmod tests { fn a() { Instant::now(); } }\n")],
    ],
};

const NO_SQL_ABOVE_THE_STORE: Rule = Rule {
    name: "only the store contains SQL",
    fix: "put the statement into src/store/sql/<noun>/<verb>.sql and call it through the store",
    find: |tree| {
        tree.rust()
            .filter(|(file, _)| {
                let is_above = file.path.starts_with(LIBRARY) && !is_in(file, LIBRARY, SPEAK_SQL);
                is_above || file.path.starts_with(SERVER)
            })
            .flat_map(|(file, source)| {
                let statements = source.strings.iter().filter(|literal| is_statement(&literal.text));
                statements.map(|literal| file.place_at(literal.start, "a statement in a string"))
            })
            .collect()
    },
    caught: &[
        &[("crates/windlass/src/enqueue.rs", "tx.query(\"select id from windlass.job\");\n")],
        &[(
            "crates/windlass/src/worker/lease.rs",
            "let sql = r#\"\n  UPDATE windlass.worker\n  SET seen = now()\"#;\n",
        )],
        &[("crates/windlass/src/keeper/prune.rs", "let sql = \"delete from windlass.live\";\n")],
        &[("crates/windlass/src/keeper.rs", "let sql = \"insert into windlass.live values (1)\";\n")],
        &[("crates/windlass/src/keeper.rs", "let sql = \"with due as (select 1) table due\";\n")],
        &[("crates/windlass-server/src/api/jobs.rs", "let sql = \"select 1\";\n")],
    ],
    passes: &[
        &[("crates/windlass/src/worker/run.rs", "let why = \"update the definition first\"; // select 1\n")],
        &[("crates/windlass/src/store/job.rs", "let sql = \"select 1\";\n")],
        &[("crates/windlass/src/setup/migrate.rs", "let sql = \"select 1\";\n")],
    ],
};

const API_AND_PAGES_STAND_APART: Rule = Rule {
    name: "the API and the pages do not call each other",
    fix: "move what both need into auth or http",
    find: |tree| {
        let mut places = uses_in(tree, SERVER, &["api"], &["web"]);
        places.extend(uses_in(tree, SERVER, &["web"], &["api"]));
        places
    },
    caught: &[
        &[("crates/windlass-server/src/web/members.rs", "use crate::api::admin::members::put;\n")],
        &[("crates/windlass-server/src/api/jobs/list.rs", "fn a() { crate::web::page(); }\n")],
    ],
    passes: &[&[("crates/windlass-server/src/web/chart/bars.rs", "use crate::web::html::Html;\n")]],
};

fn is_in(file: &File, within: &str, modules: &[&str]) -> bool {
    let Some(path) = file.path.strip_prefix(within) else { return false };
    modules
        .iter()
        .any(|module| path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/')))
}

/// Where files of the modules name one of the forbidden modules of their crate.
fn uses_in(tree: &Tree, within: &str, modules: &[&str], forbidden: &[&str]) -> Vec<Place> {
    let mut places = Vec::new();
    for (file, source) in tree.rust().filter(|(file, _)| is_in(file, within, modules)) {
        for (offset, path) in source.crate_paths() {
            let first = path.split("::").next().unwrap_or_default();
            if forbidden.contains(&first) {
                places.push(file.place_at(offset, format!("`crate::{path}` must not be used here")));
            }
        }
    }
    places
}

fn is_statement(text: &str) -> bool {
    let text = text.trim_start().to_lowercase();
    let mut first = text.split_whitespace();
    match (first.next(), first.next()) {
        (Some("select"), Some(_)) | (Some("insert"), Some("into")) | (Some("delete"), Some("from")) => true,
        (Some("update"), Some(_)) => words(&text, "set").next().is_some(),
        (Some("with"), Some(_)) => words(&text, "as").next().is_some() && text.contains('('),
        _ => false,
    }
}
