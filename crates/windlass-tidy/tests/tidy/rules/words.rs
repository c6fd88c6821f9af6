//! The words that the glossary rejects, in everything that people read: documents, pages, statements, comments and names.

use crate::markdown::checked_tables;
use crate::rule::{Place, Rule};
use crate::tree::{File, Tree};

pub(crate) const RULES: &[&Rule] = &[&RETIRED, &NAMES];

const GLOSSARY: &str = "docs/glossary.md";

const THIS_FILE: &str = "crates/windlass-tidy/tests/tidy/rules/words.rs";

/// They quote rejected words on purpose, or are kept unchanged.
const EXEMPT: [&str; 4] = [GLOSSARY, "crates/windlass/migrations/", THIS_FILE, "Cargo.lock"];

const RETIRED: Rule = Rule {
    name: "nothing uses a word that docs/glossary.md rejects",
    fix: "use the word that the table `rejected-words` gives instead",
    find: |tree| {
        let words = rejected(tree, "rejected-words");
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

const NAMES: Rule = Rule {
    name: "no identifier contains a word that docs/glossary.md rejects in names",
    fix: "use the word that the table `rejected-names` gives instead",
    find: |tree| {
        let words = rejected(tree, "rejected-names").concat();
        let files = tree.files.iter().filter(|file| file.path != THIS_FILE);
        let named = files.flat_map(|file| {
            identifiers(file).into_iter().map(move |(offset, identifier)| (file, offset, identifier))
        });
        named
            .filter(|(_, _, identifier)| has_word(identifier, &words))
            .map(|(file, offset, identifier)| file.place_at(offset, format!("`{identifier}`")))
            .collect()
    },
    caught: &[
        &[
            (GLOSSARY, NAME_TABLE),
            ("crates/windlass/migrations/0005_a.sql", "create table windlass.remote_lease;\n"),
        ],
        &[(GLOSSARY, NAME_TABLE), ("crates/windlass/migrations/0005_remote.sql", "select 1;\n")],
        &[(GLOSSARY, NAME_TABLE), ("crates/windlass/src/a.rs", "struct RemoteJob;\n")],
        &[(GLOSSARY, NAME_TABLE), ("crates/windlass/src/a.rs", "const REMOTE_LEASE: u8 = 1;\n")],
        &[
            (GLOSSARY, NAME_TABLE),
            ("crates/windlass/tests/it/a.rs", "f(\"select windlass.claim_remote($1)\");\n"),
        ],
    ],
    passes: &[&[
        (GLOSSARY, NAME_TABLE),
        (
            "crates/windlass/src/a.rs",
            "// A remote address.\nlet remote_addr = peer(\"the remote address\");\n",
        ),
        ("crates/windlass/src/store/sql/a.sql", "-- A remote address.\nselect remotely;\n"),
        ("docs/a.md", "`git remote add` and `windlass.remote_lease`\n"),
    ]],
};

const NAME_TABLE: &str =
    "<!-- checked: rejected-names -->\n| rejected | use instead |\n|---|---|\n| remote | pull |\n";

/// Usual names of the network, with the plain meaning of a rejected word.
const USUAL: [&str; 2] = ["remote_addr", "remote_address"];

/// The identifiers of a Rust or SQL file, with their offsets: its name, its code, and what SQL in Rust names in our
/// schema.
fn identifiers(file: &File) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    if let Some(source) = &file.rust {
        found.extend(tokens(&source.code));
        for literal in &source.strings {
            let of_schema = literal.text.match_indices("windlass.").filter_map(|(at, schema)| {
                let (_, name) = tokens(&literal.text[at + schema.len()..]).next()?;
                Some((literal.start + at, name))
            });
            found.extend(of_schema);
        }
    } else if file.path.ends_with(".sql") {
        let mut start = 0;
        for line in file.text.split_inclusive('\n') {
            let code = line.split("--").next().unwrap_or_default();
            found.extend(tokens(code).map(|(at, name)| (start + at, name)));
            start += line.len();
        }
    } else {
        return found;
    }
    found.extend(tokens(&file.path).map(|(_, name)| (0, name)));
    found
}

fn tokens(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut end = 0;
    text.split(move |letter| !is_part(letter)).filter_map(move |token| {
        let at = end;
        end += token.len() + text[at + token.len()..].chars().next().map_or(0, char::len_utf8);
        (!token.is_empty()).then_some((at, token))
    })
}

/// Whether one of the words is a part of the identifier, in any case: `remote_lease`, `RemoteJob`, `REMOTE`.
fn has_word(identifier: &str, words: &[String]) -> bool {
    let mut parts = String::new();
    let mut after_lowercase = false;
    for letter in identifier.chars() {
        if letter.is_uppercase() && after_lowercase {
            parts.push('_');
        }
        after_lowercase = letter.is_lowercase();
        parts.extend(letter.to_lowercase());
    }
    !USUAL.contains(&parts.as_str()) && parts.split('_').any(|part| words.iter().any(|word| word == part))
}

fn rejected(tree: &Tree, name: &str) -> Vec<Vec<String>> {
    let glossary = tree.files.iter().find(|file| file.path == GLOSSARY);
    let tables = glossary.map(checked_tables).unwrap_or_default();
    let rows = tables.into_iter().filter(|table| table.name == name).flat_map(|table| table.rows);
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
