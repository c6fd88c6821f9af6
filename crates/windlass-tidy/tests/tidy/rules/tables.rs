//! Tables of the documents that a comment `<!-- checked: NAME -->` marks as checked, and their checks. A table that a test of
//! another crate compares with code is only registered here.

use crate::markdown::{Table, checked_tables};
use crate::rule::{Place, Rule};
use crate::source::words;
use crate::tree::Tree;

pub(crate) const RULES: &[&Rule] =
    &[&REGISTERED, &TRANSITIONS, &MISSION, &CLOSED_MISSION, &INVARIANTS, &THREATS];

/// The tables that have a check. Those after the first four are compared with code and catalog by `documents.rs` in the
/// library's tests.
const CHECKED: &[&str] = &[
    "transitions",
    "mission",
    "invariants",
    "threats",
    "metrics",
    "log-fields",
    "sql-enqueue",
    "sql-enqueue-many",
    "sql-errors",
    "sql-views",
    "sql-tables",
    // By the server's tests: cli/documents.rs and metrics.rs.
    "cli-commands",
    "cli-options",
    "exit-codes",
    "configuration",
    "server-metrics",
    // By the server's tests: openapi.rs.
    "why-codes",
    "problems",
    "sql-emit",
    "sql-functions",
    // By the tests of the library, access/logins.rs, and of the server, process/logins.rs.
    "database-logins",
    "transition-fields",
    // By the server's tests: cli/documents.rs.
    "routes",
    "stream-events",
    "audit-acts",
    // By `rooms`, `workspace`, `walk` and `words`.
    "rooms",
    "workspace",
    "server",
    "walk",
    "walk of a page",
    "walk of an action",
    "rejected-words",
    "rejected-names",
];

const REGISTERED: Rule = Rule {
    name: "every table marked as checked has a check",
    fix: "write the check and add the table's name to CHECKED in crates/windlass-tidy/tests/tidy/rules/tables.rs",
    find: |tree| {
        let unknown = tables(tree).filter(|table| !CHECKED.contains(&table.name.as_str()));
        let unknown =
            unknown.map(|table| place(&table, table.line, format!("nothing checks `{}`", table.name)));
        let bare = tables(tree).filter(|table| table.rows.is_empty());
        let bare = bare.map(|table| place(&table, table.line, "no table below the mark"));
        unknown.chain(bare).collect()
    },
    caught: &[
        &[("docs/a.md", "<!-- checked: planets -->\n\n| a |\n|---|\n| b |\n")],
        &[("docs/a.md", "<!-- checked: transitions -->\n\nNo table.\n")],
    ],
    passes: &[&[("docs/a.md", "Write `<!-- checked: NAME -->` above it.\n")]],
};

const STATES: &[&str] =
    &["scheduled", "blocked", "queued", "running", "succeeded", "failed", "dead_letter", "canceled"];

const TRANSITIONS: Rule = Rule {
    name: "the table of transitions is machine-readable",
    fix: "one row per move: columns from, to, by, guard; one state per cell, `-` for a job that does not exist yet",
    find: |tree| {
        let mut places = Vec::new();
        for table in tables(tree).filter(|table| table.name == "transitions") {
            if table.columns != ["from", "to", "by", "guard"] {
                places.push(place(&table, table.line, format!("its columns are {:?}", table.columns)));
                continue;
            }
            for (index, row) in table.rows.iter().enumerate() {
                let [from, to, by, _] = row.cells.as_slice() else {
                    places.push(place(&table, row.line, format!("{} cells", row.cells.len())));
                    continue;
                };
                let known = (from == "-" || STATES.contains(&from.as_str())) && STATES.contains(&to.as_str());
                let again = table.rows[..index].iter().any(|other| other.cells[..3] == row.cells[..3]);
                if !known || again {
                    let why = if again { "is a duplicate" } else { "names an unknown state" };
                    places.push(place(&table, row.line, format!("{from} → {to} by {by} {why}")));
                }
            }
        }
        places
    },
    caught: &[
        &[("docs/a.md", "<!-- checked: transitions -->\n| from | to |\n|---|---|\n| - | queued |\n")],
        &[(
            "docs/a.md",
            "<!-- checked: transitions -->\n| from | to | by | guard |\n|---|---|---|---|\n| pending | queued | a | b |\n",
        )],
        &[(
            "docs/a.md",
            "<!-- checked: transitions -->\n| from | to | by | guard |\n|---|---|---|---|\n| queued | - | a | b |\n",
        )],
        &[(
            "docs/a.md",
            "<!-- checked: transitions -->\n| from | to | by | guard |\n|---|---|---|---|\n| - | queued | a | b |\n| - | queued | a | c |\n",
        )],
    ],
    passes: &[&[(
        "docs/a.md",
        "<!-- checked: transitions -->\n\n| from | to | by | guard |\n|---|---|---|---|\n| - | queued | enqueue | b |\n| queued | running | claim | |\n",
    )]],
};

const MISSION: Rule = Rule {
    name: "the mission is numbered without gaps and names existing tests",
    fix: "keep every number; write the test's function name in backticks under `proved by`, or link the decision that covers it",
    find: |tree| {
        let mut places = Vec::new();
        let mut next = 1;
        for table in tables(tree).filter(|table| table.name == "mission") {
            if table.columns != ["#", "capability", "source", "proved by"] {
                places.push(place(&table, table.line, format!("its columns are {:?}", table.columns)));
                continue;
            }
            for row in &table.rows {
                let [number, _, _, proof] = row.cells.as_slice() else {
                    places.push(place(&table, row.line, format!("{} cells", row.cells.len())));
                    continue;
                };
                if *number != next.to_string() {
                    places.push(place(&table, row.line, format!("{number} instead of {next}")));
                }
                next += 1;
                places.extend(names_tests(tree, proof).into_iter().map(|why| place(&table, row.line, why)));
            }
        }
        places
    },
    caught: &[
        &[(
            "docs/internal/mission.md",
            "<!-- checked: mission -->\n| # | capability |\n|---|---|\n| 1 | a |\n",
        )],
        &[(
            "docs/internal/mission.md",
            "<!-- checked: mission -->\n| # | capability | source | proved by |\n|---|---|---|---|\n| 2 | a | 004 | – |\n",
        )],
        &[(
            "docs/internal/mission.md",
            "<!-- checked: mission -->\n| # | capability | source | proved by |\n|---|---|---|---|\n| 1 | a | 004 | |\n",
        )],
        &[
            (
                "docs/internal/mission.md",
                "<!-- checked: mission -->\n| # | capability | source | proved by |\n|---|---|---|---|\n| 1 | a | 004 | `it_holds` |\n",
            ),
            ("crates/a/tests/b.rs", "fn it_holds_not() {} // fn it_holds()\n"),
        ],
    ],
    passes: &[&[
        (
            "docs/internal/mission.md",
            "<!-- checked: mission -->\n| # | capability | source | proved by |\n|---|---|---|---|\n| 1 | a | 004 | `it_holds`, `it_stays` |\n\n<!-- checked: mission -->\n| # | capability | source | proved by |\n|---|---|---|---|\n| 2 | b | 004 | – |\n| 3 | c | 004 | [0001](decisions/0001.md) |\n",
        ),
        ("crates/a/tests/b.rs", "fn it_holds() {}\nasync fn it_stays() {}\n"),
    ]],
};

const CLOSED_MISSION: Rule = Rule {
    name: "every line of the mission has a proof",
    fix: "name the test that proves it, or link the decision that covers it",
    find: |tree| {
        let tables = tables(tree).filter(|table| table.name == "mission");
        tables
            .flat_map(|table| {
                let open = table.rows.iter().filter(|row| row.cells.last().is_some_and(|proof| proof == "–"));
                open.map(|row| place(&table, row.line, "no proof")).collect::<Vec<_>>()
            })
            .collect()
    },
    caught: &[&[(
        "docs/internal/mission.md",
        "<!-- checked: mission -->\n| # | capability | source | proved by |\n|---|---|---|---|\n| 1 | a | 004 | – |\n",
    )]],
    passes: &[&[(
        "docs/internal/mission.md",
        "<!-- checked: mission -->\n| # | capability | source | proved by |\n|---|---|---|---|\n| 1 | a – b | 004 | [0001](decisions/0001.md) |\n",
    )]],
};

const INVARIANTS: Rule = Rule {
    name: "every invariant names existing tests",
    fix: "write the test's function name in backticks under `proved by`, or `–` while it is open",
    find: |tree| {
        let mut places = Vec::new();
        for table in tables(tree).filter(|table| table.name == "invariants") {
            for row in &table.rows {
                let [_, _, proof, _] = row.cells.as_slice() else {
                    places.push(place(&table, row.line, format!("{} cells", row.cells.len())));
                    continue;
                };
                places.extend(names_tests(tree, proof).into_iter().map(|why| place(&table, row.line, why)));
            }
        }
        places
    },
    caught: &[
        &[(
            "docs/a.md",
            "<!-- checked: invariants -->\n| # | promise | proved by |\n|---|---|---|\n| 1 | a | – |\n",
        )],
        &[(
            "docs/a.md",
            "<!-- checked: invariants -->\n| # | promise | proved by | also |\n|---|---|---|---|\n| 1 | a | `it_holds` | |\n",
        )],
    ],
    passes: &[&[
        (
            "docs/a.md",
            "<!-- checked: invariants -->\n| # | promise | proved by | also |\n|---|---|---|---|\n| 1 | a | `it_holds` | model |\n| 2 | b | – | model |\n",
        ),
        ("crates/a/tests/b.rs", "async fn it_holds() {}\n"),
    ]],
};

const THREATS: Rule = Rule {
    name: "every threat names existing tests",
    fix: "write the test's function name in backticks under `proved by`, or `–` while it is open",
    find: |tree| {
        let mut places = Vec::new();
        for table in tables(tree).filter(|table| table.name == "threats") {
            for row in &table.rows {
                let [_, _, proof] = row.cells.as_slice() else {
                    places.push(place(&table, row.line, format!("{} cells", row.cells.len())));
                    continue;
                };
                places.extend(names_tests(tree, proof).into_iter().map(|why| place(&table, row.line, why)));
            }
        }
        places
    },
    caught: &[
        &[("docs/a.md", "<!-- checked: threats -->\n| # | threat |\n|---|---|\n| X-01 | a |\n")],
        &[(
            "docs/a.md",
            "<!-- checked: threats -->\n| # | threat | proved by |\n|---|---|---|\n| X-01 | a | `it_holds` |\n",
        )],
    ],
    passes: &[&[
        (
            "docs/a.md",
            "<!-- checked: threats -->\n| # | threat | proved by |\n|---|---|---|\n| X-01 | a | `it_holds` |\n",
        ),
        ("crates/a/tests/b.rs", "async fn it_holds() {}\n"),
    ]],
};

fn tables(tree: &Tree) -> impl Iterator<Item = Table> {
    tree.ending(".md").flat_map(checked_tables)
}

fn place(table: &Table, line: usize, what: impl Into<String>) -> Place {
    Place { path: table.path.clone(), line, what: what.into() }
}

/// Checks a cell with proofs: `–`, names of tests in backticks, or a link to a design document (which the rule on links checks).
fn names_tests(tree: &Tree, cell: &str) -> Vec<String> {
    if cell == "–" || cell.starts_with('[') {
        return Vec::new();
    }
    let names: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
    if names.is_empty() {
        return vec![format!("`{cell}` names no test")];
    }
    let missing = names.into_iter().filter(|name| {
        let function = format!("fn {name}");
        !tree.rust().any(|(_, source)| words(&source.code, &function).next().is_some())
    });
    missing.map(|name| format!("test `{name}` not found")).collect()
}
