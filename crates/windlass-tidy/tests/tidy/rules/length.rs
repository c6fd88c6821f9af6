//! A file that is too long contains more than one idea, and a line that is too wide is not read.

use crate::rule::{Place, Rule};
use crate::tree::{File, Tree};

pub(crate) const RULES: &[&Rule] = &[&RUST, &SQL, &SQL_WIDTH, &PROSE_WIDTH];

const RUST_LINES: usize = 400;
const SQL_LINES: usize = 200;
const COLUMNS: usize = 140;

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

macro_rules! concat_wide {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            "one two three four five six seven eight nine ten one two three four five six seven eight nine ten ",
            "one two three four five six seven eight nine ten one two three four five six seven eight nine ten ",
            $after
        )
    };
}

const SQL_WIDTH: Rule = Rule {
    name: "a line of SQL has at most 140 columns",
    fix: "break the line",
    find: |tree| tree.ending(".sql").flat_map(|file| wider(file, |_| true)).collect(),
    caught: &[&[("crates/windlass/src/store/sql/job/claim.sql", WIDE)]],
    passes: &[&[("crates/windlass/src/store/sql/job/claim.sql", "select 1\n")]],
};

const PROSE_WIDTH: Rule = Rule {
    name: "a line of a document has at most 140 columns, except tables and code",
    fix: "break the line",
    find: |tree| {
        let documents = tree.ending(".md").flat_map(|file| {
            let mut in_code = false;
            wider(file, move |line| {
                let is_fence = line.trim_start().starts_with("```");
                in_code ^= is_fence;
                !(in_code || is_fence || line.trim_start().starts_with('|'))
            })
        });
        documents.collect()
    },
    caught: &[&[("docs/a.md", WIDE)], &[("docs/a.md", WIDE_AFTER_CODE)]],
    passes: &[&[("docs/a.md", WIDE_CODE), ("docs/b.md", WIDE_TABLE)]],
};

fn longer(tree: &Tree, end: &str, most: usize) -> Vec<Place> {
    tree.ending(end)
        .filter_map(|file| {
            let lines = file.text.lines().count();
            (lines > most).then(|| file.place(most + 1, format!("{lines} lines")))
        })
        .collect()
}

/// The lines that are too wide, of those that count.
fn wider(file: &File, mut counts: impl FnMut(&str) -> bool) -> Vec<Place> {
    let lines = file.text.lines().enumerate().filter(|(_, line)| counts(line));
    let wide = lines.map(|(index, line)| (index, line.chars().count())).filter(|(_, width)| *width > COLUMNS);
    wide.map(|(index, width)| file.place(index + 1, format!("{width} columns"))).collect()
}

const WIDE: &str = concat_wide!("-- ", "\n");
const WIDE_CODE: &str = concat_wide!("```sh\n", "\n```\n");
const WIDE_AFTER_CODE: &str = concat_wide!("```sh\n```\n", "\n");
const WIDE_TABLE: &str = concat_wide!("| a |\n|---|\n| ", " |\n");

const LINES_201: &str = newlines::<201>();
const LINES_401: &str = newlines::<401>();

const fn newlines<const COUNT: usize>() -> &'static str {
    match std::str::from_utf8(&[b'\n'; COUNT]) {
        Ok(text) => text,
        Err(_) => panic!("a line feed is UTF-8"),
    }
}
