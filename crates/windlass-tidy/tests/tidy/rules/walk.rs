//! The walk of a job in ARCHITECTURE.md: every file in it exists, and every type is defined in the library and used in one of the
//! files of its row.

use crate::markdown::{Row, checked_tables};
use crate::rule::{Place, Rule};
use crate::source::words;
use crate::tree::{File, LIBRARY, Tree};

pub(crate) const RULES: &[&Rule] = &[&WALK];

const WALK: Rule = Rule {
    name: "the walk of ARCHITECTURE.md names files and types that exist",
    fix: "correct the row: its files are relative to crates/windlass/src, and its types occur in one of them",
    find: |tree| {
        let Some(map) = tree.files.iter().find(|file| file.path == "ARCHITECTURE.md") else {
            return Vec::new();
        };
        let tables = checked_tables(map).into_iter().filter(|table| table.name == "walk");
        tables.flat_map(|table| table.rows).flat_map(|row| wrong(tree, map, &row)).collect()
    },
    caught: &[
        &[(
            "ARCHITECTURE.md",
            "<!-- checked: walk -->\n| # | where | takes → gives |\n|---|---|---|\n| 1 | `gone.rs` | `Job` |\n",
        )],
        &[("ARCHITECTURE.md", ONE_STOP), ("crates/windlass/src/enqueue.rs", "pub struct Job;\n")],
        &[("ARCHITECTURE.md", ONE_STOP), ("crates/windlass/src/enqueue.rs", "fn enqueue(plan: Plan) {}\n")],
    ],
    passes: &[&[
        ("ARCHITECTURE.md", ONE_STOP),
        ("crates/windlass/src/enqueue.rs", "fn enqueue(plan: Vec<Plan>) {}\n"),
        ("crates/windlass/src/plan.rs", "pub(crate) enum Plan { Plain }\n"),
    ]],
};

const ONE_STOP: &str = "<!-- checked: walk -->\n| # | where | takes → gives |\n|---|---|---|\n| 1 | `enqueue.rs` | a job → `Vec<Plan>` |\n";

fn wrong(tree: &Tree, map: &File, row: &Row) -> Vec<Place> {
    let [_, places, types, ..] = row.cells.as_slice() else {
        return vec![map.place(row.line, "a row has three cells")];
    };
    let named: Vec<String> = quoted(places).map(|path| format!("{LIBRARY}{path}")).collect();
    let files: Vec<&File> = tree.files.iter().filter(|file| named.contains(&file.path)).collect();
    let missing = named.iter().filter(|path| !tree.files.iter().any(|file| file.path == **path));
    let mut wrong: Vec<Place> =
        missing.map(|path| map.place(row.line, format!("there is no {path}"))).collect();
    for name in quoted(types).flat_map(type_names) {
        if !is_defined(tree, name) {
            wrong.push(map.place(row.line, format!("the library defines no type `{name}`")));
        } else if !files.iter().any(|file| words(&file.text, name).next().is_some()) {
            wrong.push(map.place(row.line, format!("none of its files uses `{name}`")));
        }
    }
    wrong
}

/// The texts between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The names of our types in a type such as `Vec<Claimed>`.
fn type_names(text: &str) -> impl Iterator<Item = &str> {
    const OF_STD: [&str; 3] = ["Vec", "Arc", "Option"];
    text.split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| word.starts_with(char::is_uppercase) && !OF_STD.contains(word))
}

fn is_defined(tree: &Tree, name: &str) -> bool {
    tree.rust().filter(|(file, _)| file.path.starts_with(LIBRARY)).any(|(_, source)| {
        words(&source.code, name).any(|at| {
            let before = source.code[..at].trim_end();
            ["struct", "enum", "trait", "type"].iter().any(|keyword| before.ends_with(keyword))
        })
    })
}
