//! What an application or an operator can call has an example, so that nobody has to guess how it is used.
//!
//! A name is public if `lib.rs` or a public module exports it and nothing on the way is hidden. The names of types are unique
//! in the library (see `names`), so the name is sufficient to find the definition.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::rule::Rule;
use crate::source::{Source, expand, item_end, words};
use crate::tree::{File, LIBRARY, Tree};

pub(crate) const RULES: &[&Rule] = &[&PUBLIC];

const PUBLIC: Rule = Rule {
    name: "every public type, function and method of the library has an example",
    fix: "add a code block to its docs; one example of a type, or of its impl block, is enough for all methods that it uses",
    find: |tree| {
        let public = public_names(tree);
        let mut places = Vec::new();
        let mut of_types: BTreeMap<&str, String> = BTreeMap::new();
        for (file, source) in library(tree) {
            let types_and_functions = items(source).filter(|item| public.contains(item.name));
            for item in types_and_functions.filter(|item| !item.is_function || at_margin(source, item.offset))
            {
                let example = example(file, item.offset);
                if example.is_empty() {
                    places.push(file.place_at(item.offset, format!("`{}` has no example", item.name)));
                }
                if !item.is_function {
                    of_types.insert(item.name, example);
                }
            }
        }
        for (file, source) in library(tree) {
            for block in impl_blocks(source).filter(|block| !is_hidden(file, block.range.start)) {
                let Some(of_type) = of_types.get(block.name) else { continue };
                let shared = format!("{of_type}{}", example(file, block.range.start));
                let methods = items(source).filter(|item| block.range.contains(&item.offset));
                for method in methods.filter(|item| item.is_function && !is_hidden(file, item.offset)) {
                    let is_used = words(&shared, method.name).next().is_some();
                    if !is_used && example(file, method.offset).is_empty() {
                        let what = format!("no example uses `{}::{}`", block.name, method.name);
                        places.push(file.place_at(method.offset, what));
                    }
                }
            }
        }
        places
    },
    caught: &[
        &[(LIB, "mod job;\npub use job::Job;\n"), (JOB, "/// A job.\npub struct Job;\n")],
        &[(LIB, "pub mod job;\n"), (JOB, "/// Runs it.\npub async fn run() {}\n")],
        &[
            (LIB, "pub mod work { pub use crate::job::{Job, State}; }\n"),
            (JOB, "pub(crate) enum Job {}\npub enum State {}\n"),
        ],
        &[
            (LIB, "pub mod job;\n"),
            (
                JOB,
                "/// A job.\n///\n/// ```\n/// Job::new();\n/// ```\n#[derive(Debug)]\npub struct Job;\nimpl Job { pub fn new() {}\npub fn cancel() {} }\n",
            ),
        ],
        &[
            (LIB, "pub mod job;\n"),
            (JOB, "mod kind;\npub use kind::Kind;\n"),
            ("crates/windlass/src/job/kind.rs", "/// ```text\n/// a kind\n/// ```\npub enum Kind { A }\n"),
        ],
    ],
    passes: &[
        &[
            (
                LIB,
                "mod job;\npub use job::Job;\n/// Hidden.\n#[doc(hidden)]\npub mod internals { pub use crate::job::State; }\n",
            ),
            (
                JOB,
                "/// ```\n/// Job::new();\n/// ```\npub struct Job;\nimpl Job { pub fn new() {}\n#[doc(hidden)]\npub fn secret() {}\npub(crate) fn own() {} }\npub enum State {}\n",
            ),
        ],
        &[
            (LIB, "pub mod job;\n"),
            (
                JOB,
                "/// ```\n/// a(&job);\n/// ```\npub struct Job<T>(T);\n\n/// ```\n/// job.cancel();\n/// ```\nimpl<T> Job<T> {\n    pub fn cancel() {}\n}\n\n#[doc(hidden)]\nimpl Job<u8> {\n    pub fn secret() {}\n}\n\nimpl From<u8> for Job<u8> {}\n",
            ),
        ],
        &[
            (LIB, "mod job;\n#[doc(hidden)]\npub use job::Job;\n"),
            (JOB, "pub struct Job;\nimpl Job { pub fn new() {} }\n"),
        ],
    ],
};

const LIB: &str = "crates/windlass/src/lib.rs";
const JOB: &str = "crates/windlass/src/job.rs";

fn library(tree: &Tree) -> impl Iterator<Item = (&File, &Source)> {
    tree.rust().filter(|(file, _)| file.path.starts_with(LIBRARY) && !file.is_test())
}

/// The names that the library exports: those of `lib.rs` and of the files of its public modules.
fn public_names(tree: &Tree) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    let mut modules = vec![LIB.to_owned()];
    while let Some(path) = modules.pop() {
        let Some((file, source)) = library(tree).find(|(file, _)| file.path == path) else { continue };
        let hidden: Vec<Range<usize>> = words(&source.code, "pub")
            .filter(|&offset| is_hidden(file, offset))
            .map(|offset| offset..item_end(&source.code, offset))
            .collect();
        let is_shown =
            |offset: usize| !source.is_test(offset) && !hidden.iter().any(|part| part.contains(&offset));
        for offset in words(&source.code, "pub").filter(|&offset| is_shown(offset)) {
            let rest = &source.code[offset..];
            if let Some(exported) = rest.strip_prefix("pub use ") {
                let paths = expand(exported);
                names.extend(paths.iter().filter_map(|path| {
                    let name = path.rsplit("::").next()?;
                    let at = exported.find(name)?;
                    Some(&exported[at..at + name.len()])
                }));
            } else if let Some(module) = rest.strip_prefix("pub mod ") {
                let folder = path.trim_end_matches(".rs").trim_end_matches("lib").trim_end_matches('/');
                let name = module.split([';', ' ']).next().unwrap_or_default();
                modules.push(format!("{folder}/{name}.rs"));
            }
        }
        if path != LIB {
            names.extend(items(source).filter(|item| at_margin(source, item.offset)).map(|item| item.name));
        }
    }
    names
}

/// A public type, function or method.
struct Item<'a> {
    name: &'a str,
    is_function: bool,
    offset: usize,
}

fn items(source: &Source) -> impl Iterator<Item = Item<'_>> {
    words(&source.code, "pub").filter(|offset| !source.is_test(*offset)).filter_map(|offset| {
        let rest = source.code[offset..].strip_prefix("pub ")?;
        let rest = ["async ", "const ", "unsafe "]
            .iter()
            .fold(rest, |rest, word| rest.strip_prefix(word).unwrap_or(rest));
        let (keyword, rest) = rest.split_once(' ')?;
        let is_function = keyword == "fn";
        let is_known = is_function || ["struct", "enum", "trait", "type"].contains(&keyword);
        is_known.then(|| Item { name: leading_name(rest), is_function, offset })
    })
}

/// An `impl` of a type itself, not of a trait.
struct ImplBlock<'a> {
    name: &'a str,
    range: Range<usize>,
}

fn impl_blocks(source: &Source) -> impl Iterator<Item = ImplBlock<'_>> {
    words(&source.code, "impl").filter_map(|offset| {
        let begins_line =
            source.code[..offset].rsplit('\n').next().is_some_and(|before| before.trim().is_empty());
        let header = source.code[offset..].split('{').next().filter(|_| begins_line)?;
        let rest = header.strip_prefix("impl")?;
        let rest = if rest.starts_with('<') { rest.split_once("> ")?.1 } else { rest.trim_start() };
        let is_of_trait = words(header, "for").next().is_some();
        let range = offset..item_end(&source.code, offset);
        (!is_of_trait).then(|| ImplBlock { name: leading_name(rest), range })
    })
}

fn leading_name(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    &text[..end.unwrap_or(text.len())]
}

/// Whether the item starts at the margin of the file: it is in no other item.
fn at_margin(source: &Source, offset: usize) -> bool {
    offset == 0 || source.code[..offset].ends_with('\n')
}

fn is_hidden(file: &File, offset: usize) -> bool {
    lines_above(file, offset).any(|line| line == "#[doc(hidden)]")
}

/// The Rust code in the docs of the item at the offset.
fn example(file: &File, offset: usize) -> String {
    let mut docs: Vec<&str> = lines_above(file, offset).filter_map(|line| line.strip_prefix("///")).collect();
    docs.reverse();
    // Whether a block is open, and whether it is Rust.
    let (mut example, mut block) = (String::new(), None);
    for line in docs {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            block = if block.is_some() { None } else { Some(["", "no_run"].contains(&language)) };
        } else if block == Some(true) {
            example.push_str(line);
            example.push('\n');
        }
    }
    example
}

/// The docs, attributes and comments above the line of the offset, from the last one.
fn lines_above(file: &File, offset: usize) -> impl Iterator<Item = &str> {
    let line_start = file.text[..offset].rfind('\n').map_or(0, |at| at + 1);
    let above = file.text[..line_start].lines().rev().map(str::trim);
    above.take_while(|line| line.starts_with("//") || line.starts_with("#["))
}
