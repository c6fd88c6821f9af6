//! The pages that people follow step by step: every block of every page is run, in the order of the page, by one of the tests
//! below, and a page without such a test is detected.
//!
//! A comment right above a block may configure it. `<!-- posted to: PATH -->`: this JSON is the body of a request.
//! `<!-- not run: WHY -->`: no test can run it. A block of the language `text` is a picture.

mod process;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A block of a page, with its language.
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) text: String,
    posted_to: Option<String>,
}

const LANGUAGES: [&str; 9] = ["sh", "sql", "python", "js", "ts", "rust", "json", "toml", "promql"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every block of a page that can be run, in order. A block without a language, or with one that no test supports, is an error.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    cut(page, &fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}")))
}

fn cut(page: &str, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    let mut above = "";
    while let Some(line) = lines.next() {
        let Some(words) = line.strip_prefix("```") else {
            above = if line.is_empty() { above } else { line };
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let language = words.split(',').next().unwrap_or_default().to_owned();
        let comment = |name: &str| {
            above.strip_prefix("<!-- ")?.strip_prefix(name)?.strip_prefix(": ")?.strip_suffix(" -->")
        };
        let is_run = comment("not run").is_none_or(|why| {
            assert!(why.len() > 10, "{page}: give a reason why a block is not run, not {why:?}");
            false
        });
        let posted_to = comment("posted to").map(str::to_owned);
        above = "";
        if language == "text" || !is_run {
            continue;
        }
        assert!(LANGUAGES.contains(&language.as_str()), "{page}: no test runs {language:?}");
        assert!(!words.contains("ignore"), "{page}: an ignored block proves nothing");
        blocks.push(Block { language, text: block.join("\n"), posted_to });
    }
    blocks
}

/// The pages, by the tests that run them.
fn pages_that_are_run() -> BTreeSet<String> {
    let own = [
        // getting_started.rs, commands.rs, telemetry.rs
        "docs/getting-started.md",
        "docs/commands.md",
        "docs/telemetry.md",
        // backup.rs
        "docs/guides/backup-and-restore.md",
        // clients/process/documents.rs
        "docs/http-jobs.md",
        "docs/pull-workers.md",
        // clients/process/packages.rs
        "clients/python/README.md",
        "clients/typescript/README.md",
        // The library's documents.rs
        "README.md",
    ];
    let guides = process::guides::PAGES.iter().map(|page| format!("docs/{page}.md"));
    let moves = process::migrating::pages().map(|page| format!("docs/migrating/{page}.md"));
    let examples = crate::examples::NAMES.iter().map(|name| format!("examples/{name}/README.md"));
    own.into_iter().map(str::to_owned).chain(guides).chain(moves).chain(examples).collect()
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() && !name.starts_with('.') && name != "target" && name != "node_modules" {
            walk(&path, found);
        } else if path.extension().is_some_and(|suffix| suffix == "md") {
            found.push(path);
        }
    }
}

#[test]
fn every_page_with_a_block_is_run_by_a_test() {
    let mut found = Vec::new();
    walk(&root(), &mut found);
    let library = fs::read_to_string(root().join("crates/windlass/src/lib.rs")).unwrap();
    let mut with_blocks = BTreeSet::new();
    for path in found {
        let page = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        let blocks = blocks(&page);
        // Rust blocks are run by the doc tests of the library.
        if blocks.iter().any(|block| block.language == "rust") {
            assert!(
                library.contains(&format!("include_str!(\"../../../{page}\")")),
                "{page} is not in lib.rs"
            );
        }
        if blocks.iter().any(|block| block.language != "rust") {
            with_blocks.insert(page);
        }
    }
    assert_eq!(with_blocks, pages_that_are_run());
}

#[test]
fn a_page_is_split_into_its_blocks() {
    let page = "# A\n\n```sh\nls\n\nls -l\n```\n\n<!-- posted to: /jobs -->\n\n```json\n{}\n```\n\n<!-- not run: it would take a day -->\n```sql\nx\n```\n\n```text\n->\n```\n```rust,no_run\nfn a() {}\n```\n";
    let blocks = cut("a.md", page);
    let seen: Vec<_> = blocks.iter().map(|block| (block.language.as_str(), block.text.as_str())).collect();
    assert_eq!(seen, [("sh", "ls\n\nls -l"), ("json", "{}"), ("rust", "fn a() {}")]);
    assert_eq!(blocks[1].posted_to.as_deref(), Some("/jobs"));
}

#[test]
#[should_panic(expected = "no test runs")]
fn a_block_without_a_runner_is_detected() {
    cut("a.md", "```\nls\n```\n");
}

#[test]
#[should_panic(expected = "give a reason")]
fn a_block_is_skipped_only_with_a_reason() {
    cut("a.md", "<!-- not run: no -->\n```sh\nls\n```\n");
}
