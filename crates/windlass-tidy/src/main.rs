//! The last step of `./dev test`: checks that every test named in a document as a proof has run.
//!
//! The rules of `tests/tidy` can only check that a function of that name exists. Whether it is a test, was compiled on this machine
//! and was not filtered out is only in the report of the run: the JUnit file of nextest, or the output of `cargo test`. Failures
//! are not checked here; they have ended the previous step.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The documents, and the names of their tables of proofs.
const DOCUMENTS: [(&str, &str); 2] =
    [("docs/internal/mission.md", "mission"), ("docs/reliability.md", "invariants")];

fn main() -> ExitCode {
    match check(std::env::args().nth(1).map(PathBuf::from)) {
        Ok(report) => {
            let _ = writeln!(io::stdout(), "{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn check(report: Option<PathBuf>) -> Result<String, String> {
    let report = report
        .ok_or("usage: windlass-tidy REPORT (the junit.xml of nextest, or the output of cargo test)")?;
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    let ran = names_in(&read(&report)?);
    if ran.is_empty() {
        return Err(format!("{} contains no tests", report.display()));
    }
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut named = 0;
    let mut missing = Vec::new();
    for (document, table) in DOCUMENTS {
        for (line, name) in proofs(&read(&root.join(document))?, table) {
            named += 1;
            if !ran.contains(&name) {
                missing.push(format!("{document}:{line}: `{name}` did not run"));
            }
        }
    }
    if named == 0 {
        return Err("the documents name no test".to_owned());
    }
    if missing.is_empty() {
        return Ok(format!(
            "all {named} proofs named in the documents are among the {} tests that ran",
            ran.len()
        ));
    }
    Err(missing.join("\n"))
}

/// The functions of the tests in a report.
fn names_in(report: &str) -> BTreeSet<String> {
    let junit = report.split("<testcase name=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let printed = report.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... ok"));
    let paths = junit.chain(printed.filter_map(|name| name.split(' ').next()));
    paths.filter_map(|path| path.rsplit("::").next()).map(str::to_owned).collect()
}

/// The names in backticks in the column `proved by` of the marked tables, each with its line.
fn proofs(document: &str, table: &str) -> Vec<(usize, String)> {
    let mark = format!("<!-- checked: {table} -->");
    let mut found = Vec::new();
    let (mut is_marked, mut column) = (false, None);
    for (index, line) in document.lines().enumerate() {
        if line == mark {
            (is_marked, column) = (true, None);
        } else if !line.starts_with('|') {
            is_marked &= line.is_empty() && column.is_none();
        } else if is_marked {
            let line = line.replace("\\|", " ");
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            match column {
                None => column = cells.iter().position(|cell| *cell == "proved by"),
                Some(column) => {
                    let names =
                        cells.get(column).into_iter().flat_map(|cell| cell.split('`').skip(1).step_by(2));
                    found.extend(names.map(|name| (index + 1, name.to_owned())));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_report_are_read() {
        let junit = r#"<testsuites><testsuite name="a"><testcase name="process::kill::it_holds" classname="a::it" time="1"/>
            <testcase name="it_stays" classname="a"></testcase></testsuite></testsuites>"#;
        let printed = "running 3 tests\ntest process::kill::it_holds ... ok\ntest it_fell - should panic ... ok\ntest it_broke ... FAILED\ntest it_slept ... ignored\n";
        assert_eq!(names_in(junit), ["it_holds", "it_stays"].map(str::to_owned).into());
        assert_eq!(names_in(printed), ["it_fell", "it_holds"].map(str::to_owned).into());
    }

    #[test]
    fn proofs_are_read_from_the_column_of_marked_tables() {
        let document = "\
# A\n\n<!-- checked: mission -->\n\n| # | capability | proved by |\n|---|---|---|\n| 1 | `a` \\| `b` | `it_holds`, `it_stays` |\n\
| 2 | c | – |\n\nText with `nothing`.\n\n| # | x | proved by |\n|---|---|---|\n| 1 | a | `other` |\n";
        let found: Vec<(usize, String)> =
            [(7, "it_holds"), (7, "it_stays")].map(|(line, name)| (line, name.to_owned())).into();
        assert_eq!(proofs(document, "mission"), found);
        assert_eq!(proofs(document, "invariants"), []);
    }

    #[test]
    fn a_missing_report_is_an_error() {
        assert!(check(Some(PathBuf::from("/nowhere/junit.xml"))).unwrap_err().contains("cannot read"));
        assert!(check(None).unwrap_err().contains("usage"));
    }
}
