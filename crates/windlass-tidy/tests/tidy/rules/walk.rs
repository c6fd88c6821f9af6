//! The walks of ARCHITECTURE.md, of a job, a page and an action: every function in them exists in the file of its row, with the
//! parameters and the result that the row shows, and every Rust file of a row has one of its functions. A statement is called, and a
//! template filled, by a file above it in the table.

use crate::markdown::{Row, checked_tables};
use crate::rule::{Place, Rule};
use crate::source::{occurrences, words};
use crate::tree::{File, LIBRARY, STATEMENTS, Tree};

pub(crate) const RULES: &[&Rule] = &[&WALK];

const WALKS: [&str; 3] = ["walk", "walk of a page", "walk of an action"];
const COLUMNS: [&str; 4] = ["#", "where", "function", "what it does"];

const WALK: Rule = Rule {
    name: "the walk of ARCHITECTURE.md shows the functions as they are",
    fix: "write the signature as in the code, without names of parameters, lifetimes and paths; files are relative to crates/windlass/src, or to crates",
    find: |tree| {
        let Some(map) = tree.files.iter().find(|file| file.path == "ARCHITECTURE.md") else {
            return Vec::new();
        };
        let mut places = Vec::new();
        for table in checked_tables(map).into_iter().filter(|table| WALKS.contains(&table.name.as_str())) {
            if table.columns != COLUMNS {
                places.push(map.place(table.line, format!("its columns are not {COLUMNS:?}")));
            }
            let mut callers = String::new();
            places.extend(table.rows.iter().flat_map(|row| wrong(tree, map, row, &mut callers)));
        }
        places
    },
    caught: &[
        // The file, the function, a parameter, the result, a file without a function, and a statement that nothing calls.
        &[("ARCHITECTURE.md", ONE_STEP)],
        &[("ARCHITECTURE.md", ONE_STEP), ("crates/windlass/src/enqueue.rs", "fn place(job: &NewJob) {}\n")],
        &[
            ("ARCHITECTURE.md", ONE_STEP),
            ("crates/windlass/src/enqueue.rs", "fn plan(job: &NewJob, now: Timestamp) -> Result<Plan> {}\n"),
        ],
        &[
            ("ARCHITECTURE.md", ONE_STEP),
            ("crates/windlass/src/enqueue.rs", "fn plan(job: &NewJob) -> Plan {}\n"),
        ],
        &[
            (
                "ARCHITECTURE.md",
                "<!-- checked: walk -->\n| # | where | function | what it does |\n|---|---|---|---|\n| 1 | `enqueue.rs` | | it plans |\n",
            ),
            ("crates/windlass/src/enqueue.rs", "fn plan(job: &NewJob) -> Result<Plan> {}\n"),
        ],
        &[
            ("ARCHITECTURE.md", WITH_STATEMENT),
            ("crates/windlass/src/store/worker.rs", "fn claim() { \"windlass.claim_others()\" }\n"),
            (
                "crates/windlass/src/store/functions/job/claim.sql",
                "create or replace function windlass.claim()\n",
            ),
        ],
        &[
            ("ARCHITECTURE.md", OF_A_PAGE),
            ("crates/windlass-server/src/web/a.rs", "fn list() { \"b.html\" }\n"),
            ("crates/windlass-server/templates/a.html", ""),
        ],
    ],
    passes: &[
        &[
            ("ARCHITECTURE.md", ONE_STEP),
            (
                "crates/windlass/src/enqueue.rs",
                "impl Queue {\n    pub(crate) async fn plan<'a>(\n        &self,\n        NewJob { key, .. }: &'a NewJob,\n    ) -> \
                 crate::Result<model::Plan<'a>> {}\n}\n",
            ),
        ],
        &[
            ("ARCHITECTURE.md", WITH_STATEMENT),
            ("crates/windlass/src/store/worker.rs", "fn claim() { \"select windlass.claim($1)\" }\n"),
            (
                "crates/windlass/src/store/functions/job/claim.sql",
                "create or replace function windlass.claim()\n",
            ),
        ],
        &[
            ("ARCHITECTURE.md", OF_A_PAGE),
            ("crates/windlass-server/src/web/a.rs", "fn list() { \"a.html\" }\n"),
            ("crates/windlass-server/templates/a.html", ""),
        ],
    ],
};

const ONE_STEP: &str = "<!-- checked: walk -->\n| # | where | function | what it does |\n|---|---|---|---|\n\
    | 1 | `enqueue.rs` | `plan(&NewJob) → Result<Plan>` | it plans |\n";
const OF_A_PAGE: &str = "<!-- checked: walk of a page -->\n| # | where | function | what it does |\n|---|---|---|---|\n\
    | 1 | `windlass-server/src/web/a.rs`, `windlass-server/templates/a.html` | `list()` | it lists |\n";
const WITH_STATEMENT: &str = "<!-- checked: walk -->\n| # | where | function | what it does |\n|---|---|---|---|\n\
    | 4 | `store/worker.rs`, `store/functions/job/claim.sql` | `claim()` | it claims |\n";

/// `callers`: the strings of the Rust files and the texts of the statements above the row.
fn wrong(tree: &Tree, map: &File, row: &Row, callers: &mut String) -> Vec<Place> {
    let [_, places, functions, _] = row.cells.as_slice() else {
        return vec![map.place(row.line, "a row has four cells")];
    };
    let shown: Vec<&str> = quoted(functions).collect();
    let mut wrong = Vec::new();
    let mut real: Vec<String> = Vec::new();
    for path in quoted(places) {
        let fits =
            |file: &&File| file.path == format!("{LIBRARY}{path}") || file.path == format!("crates/{path}");
        let Some(file) = tree.files.iter().find(fits) else {
            wrong.push(map.place(row.line, format!("there is no {path}")));
            continue;
        };
        let Some(source) = &file.rust else {
            if !names_of(file).iter().any(|name| callers.contains(name)) {
                wrong.push(map.place(row.line, format!("no file above it uses {path}")));
            }
            callers.push_str(&file.text);
            continue;
        };
        callers.extend(source.strings.iter().map(|literal| literal.text.as_str()));
        let of_file: Vec<String> =
            shown.iter().flat_map(|shown| signatures(&source.code, name_of(shown))).collect();
        if of_file.is_empty() {
            wrong.push(map.place(row.line, format!("none of its functions is in {path}")));
        }
        real.extend(of_file);
    }
    for shown in shown.into_iter().filter(|shown| !real.iter().any(|real| real == shown)) {
        let named: Vec<&String> = real.iter().filter(|real| name_of(real) == name_of(shown)).collect();
        wrong.push(map.place(row.line, format!("`{shown}` is in none of its files; there is {named:?}")));
    }
    wrong
}

/// How another file names a statement or a template: by the functions in it, by its path in the store, or by its file name.
fn names_of(file: &File) -> Vec<String> {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    if file.path.ends_with(".html") {
        return vec![name.to_owned()];
    }
    let defined = occurrences(&file.text, CREATE).filter_map(|at| {
        let name = file.text[at + CREATE.len()..].split('(').next()?;
        Some(format!("windlass.{name}("))
    });
    let path = file.path.strip_prefix(STATEMENTS).filter(|path| path.starts_with("sql/")).map(str::to_owned);
    defined.chain(path).collect()
}

const CREATE: &str = "create or replace function windlass.";

/// The texts between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn name_of(signature: &str) -> &str {
    signature.split('(').next().unwrap_or_default()
}

/// Every function of this name, as the table shows one: `decide(&Claimed, Duration) → (SettleEntry, State)`.
fn signatures(code: &str, name: &str) -> Vec<String> {
    let starts = words(code, name).filter(|at| code[..*at].ends_with("fn "));
    starts
        .filter_map(|at| {
            let code = code[at + name.len()..].replace("->", "→");
            let code = &code[code.find('(')?..];
            let inside = &code[1..closing(code)?];
            let types: Vec<String> = parts(inside).into_iter().filter_map(type_of).collect();
            let rest = &code[inside.len() + 2..];
            let result = rest[..rest.find(['{', ';'])?].split(" where").next().unwrap_or_default();
            let result = result.trim().strip_prefix('→').map(|result| format!(" → {}", plain(result)));
            Some(format!("{name}({}){}", types.join(", "), result.unwrap_or_default()))
        })
        .collect()
}

/// Where the parenthesis at the start is closed.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    text.bytes().position(|byte| {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

/// The parameters: what is between the commas outside of all brackets.
fn parts(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(|letter| {
        match letter {
            '(' | '<' | '[' | '{' => depth += 1,
            ')' | '>' | ']' | '}' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    })
    .collect()
}

/// The type of a parameter; `self` has none.
fn type_of(parameter: &str) -> Option<String> {
    let fields = parameter.rfind('}').map_or(0, |end| end + 1);
    parameter[fields..].split_once(": ").map(|(_, of)| plain(of))
}

/// A type without lifetimes, paths and line breaks.
fn plain(of: &str) -> String {
    let mut plain = String::new();
    for word in of.split_whitespace() {
        if !(plain.is_empty() || plain.ends_with(['<', '(', '['])) {
            plain.push(' ');
        }
        plain.push_str(word);
    }
    while let Some(at) = plain.find('\'') {
        let name = plain[at + 1..].find(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let end = name.map_or(plain.len(), |length| at + 1 + length);
        let end = end + plain[end..].len() - plain[end..].trim_start_matches([',', ' ']).len();
        plain.replace_range(at..end, "");
    }
    while let Some(at) = plain.find("::") {
        let path = plain[..at].rfind(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let from = path.map_or(0, |before| before + plain[before..].chars().next().map_or(1, char::len_utf8));
        plain.replace_range(from..at + 2, "");
    }
    plain.replace("<>", "").replace(",)", ")").replace(", >", ">")
}

#[test]
fn a_signature_is_shown_without_names_lifetimes_and_paths() {
    let code = "fn a<'a>(&mut self, turn: &'a Turn<'_>, taken: impl Iterator<Item = (i32, u8)>) where X {}\nfn ab() {}\n\
        fn a(b: store::Settled<'a, u8>) -> Result<Vec<(i32, model::Job)>> { a(b) }\n";
    assert_eq!(
        signatures(code, "a"),
        ["a(&Turn, impl Iterator<Item = (i32, u8)>)", "a(Settled<u8>) → Result<Vec<(i32, Job)>>",]
    );
}
