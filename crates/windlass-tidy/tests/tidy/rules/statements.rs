//! The SQL files: each is loaded by the store, once, and has a description.

use crate::rule::Rule;
use crate::source::{Source, starts};
use crate::tree::{File, STATEMENTS, Tree, beside};

pub(crate) const RULES: &[&Rule] = &[&USED_ONCE, &EXPLAINED, &LOADED_BY_THE_STORE];

const USED_ONCE: Rule = Rule {
    name: "every statement is loaded exactly once",
    fix: "load it with include_str! in the store function of its name, or delete it",
    find: |tree| {
        let loads: Vec<String> = loaded(tree).map(|(_, _, path)| path).collect();
        let statements = tree.ending(".sql").filter(|file| file.path.starts_with(STATEMENTS));
        let unused = statements.filter_map(|file| {
            let times = loads.iter().filter(|path| **path == file.path).count();
            (times != 1).then(|| file.place(1, format!("loaded {times} times")))
        });
        let missing = loaded(tree)
            .filter(|(_, _, path)| !tree.has(path))
            .map(|(file, offset, path)| file.place_at(offset, format!("loads {path}, which does not exist")));
        unused.chain(missing).collect()
    },
    caught: &[
        &[("crates/windlass/src/store/sql/job/claim.sql", "-- Takes jobs.\nselect 1;\n")],
        &[
            ("crates/windlass/src/store/sql/job/claim.sql", "-- Takes jobs.\nselect 1;\n"),
            ("crates/windlass/src/store/job.rs", "const A: &str = include_str!(\"sql/job/claim.sql\");\n"),
            ("crates/windlass/src/store/lane.rs", "const A: &str = include_str!(\"sql/job/claim.sql\");\n"),
        ],
        &[("crates/windlass/src/store/job.rs", "const A: &str = include_str!(\"sql/job/claim.sql\");\n")],
    ],
    passes: &[&[
        ("crates/windlass/src/store/sql/job/claim.sql", "-- Takes jobs.\nselect 1;\n"),
        ("crates/windlass/src/store/job.rs", "const A: &str = include_str!(\"sql/job/claim.sql\");\n"),
        ("crates/windlass/src/store/lane.rs", "// include_str!(\"sql/job/claim.sql\") is in job.rs\n"),
    ]],
};

const EXPLAINED: Rule = Rule {
    name: "every statement opens with a comment",
    fix: "start the file with `--` lines: purpose, index, lock order, trap",
    find: |tree| {
        let statements = tree.ending(".sql").filter(|file| file.path.starts_with(STATEMENTS));
        let bare = statements.filter(|file| !file.text.starts_with("--"));
        bare.map(|file| file.place(1, "no comment on the first line")).collect()
    },
    caught: &[
        &[("crates/windlass/src/store/sql/job/claim.sql", "select 1;\n")],
        &[("crates/windlass/src/store/sql/job/claim.sql", "\n-- Takes jobs.\nselect 1;\n")],
    ],
    passes: &[&[("crates/windlass/src/store/sql/job/claim.sql", "-- Takes jobs.\nselect 1;\n")]],
};

const LOADED_BY_THE_STORE: Rule = Rule {
    name: "only the store loads SQL files",
    fix: "move the load into src/store and call the store",
    find: |tree| {
        let product = |file: &File| {
            let of_library = file.path.starts_with("crates/windlass/src/");
            let of_store = file.path.starts_with("crates/windlass/src/store");
            (of_library && !of_store) || file.path.starts_with("crates/windlass-server/src/")
        };
        loaded(tree)
            .filter(|(file, _, _)| product(file))
            .map(|(file, offset, path)| file.place_at(offset, format!("loads {path}")))
            .collect()
    },
    caught: &[
        &[(
            "crates/windlass/src/enqueue.rs",
            "const A: &str = include_str!(\"store/sql/job/enqueue.sql\");\n",
        )],
        &[("crates/windlass-server/src/api.rs", "const A: &str = include_str!(\n    \"summary.sql\",\n);\n")],
    ],
    passes: &[
        &[(
            "crates/windlass/src/store/migrate.rs",
            "const A: &str = include_str!(\"../../migrations/1.sql\");\n",
        )],
        &[("crates/windlass-bench/src/raw.rs", "const A: &str = include_str!(\"raw.sql\");\n")],
    ],
};

/// Every SQL file that Rust loads: by which file, where, and its path.
fn loaded(tree: &Tree) -> impl Iterator<Item = (&File, usize, String)> {
    tree.rust().flat_map(|(file, source)| {
        starts(&source.code, "include_str!(").filter_map(move |offset| {
            let name = first_string(source, offset + "include_str!(".len())?;
            name.ends_with(".sql").then(|| (file, offset, beside(&file.path, name)))
        })
    })
}

/// The string literal that is the first thing after the offset.
fn first_string(source: &Source, offset: usize) -> Option<&str> {
    let literal = source.strings.iter().find(|literal| literal.start > offset)?;
    (source.code[offset..literal.start].trim() == "\"").then_some(literal.text.as_str())
}
