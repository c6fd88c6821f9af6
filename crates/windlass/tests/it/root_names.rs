//! The names at the root of the crate: few enough to read, and the same as on the front page.

use std::collections::BTreeSet;

const LIBRARY: &str = include_str!("../../src/lib.rs");
const MAX: usize = 30;

#[test]
fn the_root_exports_at_most_thirty_names() {
    let names = root_names(LIBRARY);
    assert!(names.len() <= MAX, "{} names: {names:?}", names.len());
    for expected in ["Queue", "JobArgs", "NewJob", "enqueue_in", "Handler", "Worker", "admin", "testing"] {
        assert!(names.contains(expected), "{expected} is missing from {names:?}");
    }
    assert!(!names.contains("internals"), "internals are hidden");
}

#[test]
fn names_are_read_from_uses_and_modules_but_not_from_hidden_ones() {
    let source = "mod a;\npub mod b;\npub use a::{C, D};\npub use a::e::F;\n#[doc(hidden)]\npub use a::G;\n#[doc(inline)]\npub use a::H;\npub mod i {\n    pub use a::J;\n}\n#[doc(hidden)]\npub mod k {\n    pub use a::L;\n}\n";
    let expected: BTreeSet<String> = ["b", "C", "D", "F", "H", "i"].map(str::to_owned).into();
    assert_eq!(root_names(source), expected);
}

/// The source without the bodies of its inline modules.
fn outline(source: &str) -> String {
    let mut is_inside = false;
    let mut lines = Vec::new();
    for line in source.lines() {
        match line.strip_suffix(" {") {
            Some(module) if module.starts_with("pub mod ") => {
                lines.push(format!("{module};"));
                is_inside = true;
            }
            _ if is_inside => is_inside = line != "}",
            // The modules of the doc tests.
            _ if line.starts_with("mod ") && line.ends_with(" {}") => {}
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

fn root_names(source: &str) -> BTreeSet<String> {
    let source = outline(source);
    let mut names = BTreeSet::new();
    let mut is_hidden = false;
    // An item ends with a semicolon; its attributes are above it, one per line.
    for item in source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n")
        .split(';')
    {
        for line in item.lines() {
            is_hidden |= line.trim() == "#[doc(hidden)]";
        }
        let text = item.lines().filter(|line| !line.trim().starts_with("#[")).collect::<String>();
        let text = text.trim();
        if let Some(module) = text.strip_prefix("pub mod ") {
            names.extend((!is_hidden).then(|| module.to_owned()));
        } else if let Some(path) = text.strip_prefix("pub use ") {
            let last = path.rsplit_once("::").map_or(path, |(_, last)| last);
            let group = path.split_once('{').map_or(last, |(_, group)| group.trim_end_matches('}'));
            let new = group.split(',').map(str::trim).filter(|name| !name.is_empty() && !is_hidden);
            names.extend(new.map(str::to_owned));
        }
        is_hidden = false;
    }
    names
}
