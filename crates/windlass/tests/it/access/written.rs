//! Compares what a test found with tenants.txt. `WINDLASS_BLESS=1` writes the lines again below the reasons; the reasons are written by
//! hand, and each names exactly the functions that need it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

#[derive(Default)]
pub(super) struct Written {
    lines: BTreeSet<String>,
    /// What needs a reason, and of which functions.
    unexplained: BTreeMap<&'static str, BTreeSet<String>>,
}

impl Written {
    pub(super) fn line(&mut self, line: String) {
        self.lines.insert(line);
    }

    /// The file must have a reason for this, if it is so.
    pub(super) fn explain(&mut self, what: &'static str, is_so: bool, function: &str) {
        let functions = self.unexplained.entry(what).or_default();
        if is_so {
            functions.insert(function.to_owned());
        }
    }

    pub(super) fn forgive(&mut self, what: &'static str, functions: &BTreeSet<String>) {
        self.unexplained.entry(what).or_default().retain(|function| !functions.contains(function));
    }
}

pub(super) fn compare(found: &Written) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/access/tenants.txt");
    let text = fs::read_to_string(&file).unwrap_or_default();
    let (reasons, lines): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('#'));
    let mut lines: BTreeSet<String> = lines.into_iter().map(str::to_owned).collect();
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        let all = reasons.iter().map(|line| (*line).to_owned()).chain(found.lines.iter().cloned());
        fs::write(&file, all.map(|line| line + "\n").collect::<String>()).unwrap();
        lines.clone_from(&found.lines);
    }
    let new: Vec<_> = found.lines.difference(&lines).collect();
    let gone: Vec<_> = lines.difference(&found.lines).collect();
    let mut wrong = Vec::new();
    if !new.is_empty() || !gone.is_empty() {
        wrong.push(format!("new: {new:#?}\ngone: {gone:#?}"));
    }
    let explained = explained(&reasons);
    for (what, functions) in &found.unexplained {
        let explained = explained.get(*what).cloned().unwrap_or_default();
        let missing: Vec<_> = functions.difference(&explained).map(String::as_str).collect();
        let needless: Vec<_> = explained.difference(functions).map(String::as_str).collect();
        if !missing.is_empty() || !needless.is_empty() {
            wrong.push(format!(
                "{what}:\n  needs a reason: {}\n  needs none: {}",
                missing.join(" "),
                needless.join(" ")
            ));
        }
    }
    wrong.extend(
        explained
            .keys()
            .filter(|what| !found.unexplained.contains_key(what.as_str()))
            .map(|what| format!("nothing is called \"{what}\"")),
    );
    assert!(wrong.is_empty(), "tenants.txt:\n{}", wrong.join("\n"));
}

/// The functions with a reason, by the heading (`## heading`) of the line (`# reason: functions`).
fn explained(reasons: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let mut explained: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut heading = String::new();
    for line in reasons {
        if let Some(next) = line.strip_prefix("## ") {
            heading = next.to_owned();
            explained.entry(heading.clone()).or_default();
        } else if let (false, Some((_, functions))) = (heading.is_empty(), line.rsplit_once(": ")) {
            explained.entry(heading.clone()).or_default().extend(functions.split(' ').map(str::to_owned));
        }
    }
    explained
}
