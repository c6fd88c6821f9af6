//! A file that is too long contains more than one idea.

use crate::rule::Rule;
use crate::tree::Tree;

pub(crate) const RULES: &[&Rule] = &[&RUST, &SQL];

const RUST_LINES: usize = 400;
const SQL_LINES: usize = 200;

const RUST: Rule = Rule {
    name: "a Rust file has at most 400 lines",
    fix: "move the second idea into its own file",
    find: |tree| longer(tree, ".rs", RUST_LINES),
    caught: &[&[("crates/windlass/src/job.rs", LINES_401)]],
    passes: &[&[("crates/windlass/src/job.rs", LINES_201)]],
};

const SQL: Rule = Rule {
    name: "a SQL file has at most 200 lines, except migrations",
    fix: "move the second statement into its own file",
    find: |tree| {
        let mut places = longer(tree, ".sql", SQL_LINES);
        places.retain(|place| !place.path.contains("/migrations/"));
        places
    },
    caught: &[&[("crates/windlass/src/store/sql/job/claim.sql", LINES_201)]],
    passes: &[&[("crates/windlass/migrations/0001_start.sql", LINES_201)]],
};

fn longer(tree: &Tree, end: &str, most: usize) -> Vec<crate::rule::Place> {
    tree.ending(end)
        .filter_map(|file| {
            let lines = file.text.lines().count();
            (lines > most).then(|| file.place(most + 1, format!("{lines} lines")))
        })
        .collect()
}

const LINES_201: &str = newlines::<201>();
const LINES_401: &str = newlines::<401>();

const fn newlines<const COUNT: usize>() -> &'static str {
    match std::str::from_utf8(&[b'\n'; COUNT]) {
        Ok(text) => text,
        Err(_) => panic!("a line feed is UTF-8"),
    }
}
