//! The words that the glossary rejects, in everything that people read: documents, pages, statements, comments and names.

use crate::markdown::checked_tables;
use crate::rule::{Place, Rule};
use crate::tree::{File, Tree};

pub(crate) const RULES: &[&Rule] = &[&RETIRED];

const GLOSSARY: &str = "docs/glossary.md";

/// They quote rejected words on purpose, or are kept unchanged.
const EXEMPT: [&str; 4] =
    [GLOSSARY, "crates/windlass/migrations/", "crates/windlass-tidy/tests/tidy/rules/words.rs", "Cargo.lock"];

const RETIRED: Rule = Rule {
    name: "nothing uses a word that docs/glossary.md rejects",
    fix: "use the word that the table `rejected-words` gives instead",
    find: |tree| {
        let words = rejected(tree);
        let files = tree.files.iter().filter(|file| !EXEMPT.iter().any(|path| file.path.starts_with(path)));
        files.flat_map(|file| found_in(file, &words)).collect()
    },
    caught: &[
        &[(GLOSSARY, TABLE), ("docs/a.md", "It stands in line.\n")],
        &[(GLOSSARY, TABLE), ("crates/windlass/tests/it/a.rs", "fn it_stands_in_line() {}\n")],
        &[(GLOSSARY, TABLE), ("crates/windlass-server/templates/a.html", "<p>Stands in\n  line</p>\n")],
    ],
    passes: &[&[
        (GLOSSARY, TABLE),
        ("docs/a.md", "It stands in lineage, and it withstands in line.\n"),
        ("crates/windlass/migrations/0001_a.sql", "-- stands in line\n"),
    ]],
};

const TABLE: &str = "<!-- checked: rejected-words -->\n| rejected | use instead |\n|---|---|\n| stands in line | is queued |\n";

fn rejected(tree: &Tree) -> Vec<Vec<String>> {
    let glossary = tree.files.iter().find(|file| file.path == GLOSSARY);
    let tables = glossary.map(checked_tables).unwrap_or_default();
    let rows = tables.into_iter().filter(|table| table.name == "rejected-words").flat_map(|table| table.rows);
    let cells = rows.filter_map(|row| row.cells.into_iter().next());
    cells
        .flat_map(|cell| cell.split(',').map(|phrase| phrase.trim().to_lowercase()).collect::<Vec<_>>())
        .filter(|phrase| !phrase.is_empty())
        .map(|phrase| phrase.split(' ').map(str::to_owned).collect())
        .collect()
}

/// Words are separated by spaces, line breaks, comment marks and underscores.
fn found_in(file: &File, rejected: &[Vec<String>]) -> Vec<Place> {
    let lower = file.text.to_lowercase();
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '-';
    let mut words: Vec<(usize, &str)> = Vec::new();
    let mut start = None;
    for (at, letter) in lower.char_indices().chain([(lower.len(), ' ')]) {
        match (start, is_part(letter)) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                words.push((from, lower[from..at].trim_matches('-')));
                start = None;
            }
            _ => {}
        }
    }
    let mut places = Vec::new();
    for (index, (at, word)) in words.iter().enumerate() {
        for phrase in rejected.iter().filter(|phrase| phrase[0] == *word) {
            let rest = words[index..].iter().map(|(_, word)| *word).take(phrase.len());
            if rest.eq(phrase.iter().map(String::as_str)) {
                places.push(file.place(line_of(&lower, *at), format!("`{}`", phrase.join(" "))));
            }
        }
    }
    places
}

fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}
