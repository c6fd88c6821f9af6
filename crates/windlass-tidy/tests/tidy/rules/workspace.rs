//! The tables of ARCHITECTURE.md that say what each folder holds: of the workspace, and of the server's source. They are compared
//! with the tree, in both directions. The rooms of the library have their own rules.

use std::collections::BTreeSet;

use crate::markdown::checked_tables;
use crate::rule::{Place, Rule};
use crate::tree::Tree;

pub(crate) const RULES: &[&Rule] = &[&WORKSPACE, &SERVER];

const MAP: &str = "ARCHITECTURE.md";
const SERVER_SOURCE: &str = "crates/windlass-server/src/";
/// Every crate has these, and what they hold is in no table of folders.
const OF_EVERY_CRATE: [&str; 2] = ["src", "tests"];

const WORKSPACE: Rule = Rule {
    name: "the table `workspace` of ARCHITECTURE.md lists the folders of the repository",
    fix: "give the folder a row, with one sentence, or take the row away; of each crate the folders beside src and tests",
    find: |tree| {
        let mut real = BTreeSet::from(["dev".to_owned()]);
        for file in &tree.files {
            match file.path.split('/').collect::<Vec<_>>().as_slice() {
                ["crates", name, inner, _, ..] => {
                    real.insert(format!("crates/{name}/"));
                    if !OF_EVERY_CRATE.contains(inner) {
                        real.insert(format!("crates/{name}/{inner}/"));
                    }
                }
                ["crates", ..] | [_] | [] => {}
                [top, ..] => {
                    real.insert(format!("{top}/"));
                }
            }
        }
        compare(tree, "workspace", &real)
    },
    caught: &[
        &[(MAP, TWO_FOLDERS), ("docs/a.md", ""), ("crates/a/src/lib.rs", ""), ("deploy/b", "")],
        &[(MAP, TWO_FOLDERS), ("docs/a.md", ""), ("crates/a/src/lib.rs", ""), ("crates/a/assets/b", "")],
        &[(MAP, TWO_FOLDERS), ("docs/a.md", "")],
    ],
    passes: &[
        &[(MAP, TWO_FOLDERS), ("docs/a.md", ""), ("crates/a/src/lib.rs", ""), ("Cargo.toml", "")],
        &[("docs/a.md", "")],
    ],
};

const SERVER: Rule = Rule {
    name: "the table `server` of ARCHITECTURE.md lists the modules of the server",
    fix: "give the module a row, with one sentence, or take the row away",
    find: |tree| {
        let entries = tree.files.iter().filter_map(|file| file.path.strip_prefix(SERVER_SOURCE));
        let real = entries.filter_map(|path| path.split(['/', '.']).next()).map(str::to_owned).collect();
        compare(tree, "server", &real)
    },
    caught: &[
        &[(MAP, ONE_MODULE), ("crates/windlass-server/src/web/page.rs", "")],
        &[
            (MAP, ONE_MODULE),
            ("crates/windlass-server/src/api.rs", ""),
            ("crates/windlass-server/src/utils.rs", ""),
        ],
        &[
            (MAP, "<!-- checked: server -->\n| module | what it holds |\n|---|---|\n| `api` | |\n"),
            ("crates/windlass-server/src/api.rs", ""),
        ],
    ],
    passes: &[&[
        (MAP, ONE_MODULE),
        ("crates/windlass-server/src/api.rs", ""),
        ("crates/windlass-server/src/api/jobs.rs", ""),
    ]],
};

const TWO_FOLDERS: &str = "<!-- checked: workspace -->\n| path | what it holds |\n|---|---|\n\
    | `dev` | commands |\n| `docs/` | guides |\n| `crates/a/` | a crate |\n";
const ONE_MODULE: &str =
    "<!-- checked: server -->\n| module | what it holds |\n|---|---|\n| `api` | handlers |\n";

fn compare(tree: &Tree, name: &str, real: &BTreeSet<String>) -> Vec<Place> {
    let Some(map) = tree.files.iter().find(|file| file.path == MAP) else { return Vec::new() };
    let tables = checked_tables(map);
    let Some(table) = tables.iter().find(|table| table.name == name) else {
        return if tree.has("crates/windlass-tidy") {
            vec![map.place(1, format!("no table `{name}`"))]
        } else {
            Vec::new()
        };
    };
    let mut places = Vec::new();
    let mut listed = BTreeSet::new();
    for row in &table.rows {
        let [path, sentence, ..] = row.cells.as_slice() else { continue };
        let path = path.trim_matches('`');
        if !real.contains(path) {
            places.push(map.place(row.line, format!("there is no `{path}`")));
        }
        if sentence.is_empty() {
            places.push(map.place(row.line, format!("`{path}` has no description")));
        }
        listed.insert(path.to_owned());
    }
    let unlisted = real.difference(&listed);
    places.extend(unlisted.map(|path| map.place(table.line, format!("`{path}` has no row"))));
    places
}
