//! The files and conventions that people expect of a repository.

use crate::rule::{Place, Rule};

pub(crate) const RULES: &[&Rule] = &[&EXPECTED];

const FILES: [&str; 16] = [
    ".editorconfig",
    ".github/CODEOWNERS",
    ".github/ISSUE_TEMPLATE",
    ".github/PULL_REQUEST_TEMPLATE.md",
    ".github/workflows/ci.yml",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SECURITY.md",
    "deny.toml",
    "docs/glossary.md",
    "docs/internal/releasing.md",
    "docs/security.md",
];

const EXPECTED: Rule = Rule {
    name: "the files that people expect of a project are there",
    fix: "restore the file, or rename it here and wherever it is linked",
    find: |tree| {
        let missing = FILES.iter().filter(|path| !tree.has(path));
        missing
            .map(|path| Place { path: (*path).to_owned(), line: 1, what: "is missing".to_owned() })
            .collect()
    },
    caught: &[&[("README.md", "")]],
    passes: &[],
};
