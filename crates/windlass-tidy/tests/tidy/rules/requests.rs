//! How the handlers of the server read requests.

use crate::rule::Rule;
use crate::source::{occurrences, words};

pub(crate) const RULES: &[&Rule] = &[&OWN_EXTRACTORS];

const API: &str = "crates/windlass-server/src/api/";
const WEB: &str = "crates/windlass-server/src/web/";

/// Extractors of axum that have their own error messages and accept text that the database cannot store.
const BARE: &[&str] = &[
    "Query",
    "RawQuery",
    "Path",
    "RawPathParams",
    "Form",
    "RawForm",
    "Multipart",
    "Json",
    "Bytes",
    "String",
];

const OWN_EXTRACTORS: Rule = Rule {
    name: "the API and the pages take queries, paths, forms and bodies with our own extractors",
    fix: "use crate::http's Query, Segment, Id and Body, or web::url_parameters' UiQuery, PathSegment and PathId, and FormBody",
    find: |tree| {
        let handlers =
            tree.rust().filter(|(file, _)| file.path.starts_with(API) || file.path.starts_with(WEB));
        handlers
            .flat_map(|(file, source)| {
                let named = occurrences(&source.code, "axum::extract::").flat_map(|at| {
                    let rest = &source.code[at..];
                    let statement = &rest[..rest.find([';', '(', ')']).unwrap_or(rest.len())];
                    let found = BARE.iter().filter(|name| words(statement, name).next().is_some());
                    found.map(move |name| (at, format!("axum's `{name}`"))).collect::<Vec<_>>()
                });
                // axum's Json is for responses only; its Form is not used.
                let taken = ["Json(", "Form("].into_iter().flat_map(|name| {
                    let patterns = occurrences(&source.code, name).filter(|at| {
                        let after = source.code[*at..].find(')').map_or("", |end| &source.code[at + end..]);
                        after.starts_with("): Json<") || after.starts_with("): Form<")
                    });
                    patterns.map(move |at| (at, format!("a parameter `{name}…)`"))).collect::<Vec<_>>()
                });
                named.chain(taken).map(|(at, what)| file.place_at(at, what)).collect::<Vec<_>>()
            })
            .collect()
    },
    caught: &[
        &[("crates/windlass-server/src/web/jobs.rs", "use axum::extract::{Query, State as FromState};\n")],
        &[("crates/windlass-server/src/api/tokens.rs", "use axum::extract::Path;\n")],
        &[(
            "crates/windlass-server/src/web/job_actions.rs",
            "let a = axum::extract::Query::<A>::try_from_uri(&uri);\n",
        )],
        &[("crates/windlass-server/src/api/a.rs", "async fn a(Json(body): Json<A>) {}\n")],
        &[("crates/windlass-server/src/web/a/b.rs", "use axum::extract::{\n    Form,\n    State,\n};\n")],
    ],
    passes: &[
        &[("crates/windlass-server/src/http/extract.rs", "use axum::extract::{Path, Query};\n")],
        &[(
            "crates/windlass-server/src/api/jobs.rs",
            "use axum::Json;\nuse axum::extract::State;\nfn a() { Ok(Json(b)) }\n",
        )],
        &[(
            "crates/windlass-server/src/web/a.rs",
            "use axum::extract::{ConnectInfo, State};\nuse super::url_parameters::UiQuery;\n",
        )],
    ],
};
