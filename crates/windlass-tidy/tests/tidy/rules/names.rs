//! One name, one thing.

use std::collections::BTreeMap;

use crate::rule::{Place, Rule};
use crate::source::words;
use crate::tree::{File, LIBRARY, Tree};

pub(crate) const RULES: &[&Rule] = &[&ONE_TYPE];

/// Each of them is read as a whole, so a name must be clear in all of it.
const CRATES: [&str; 2] = [LIBRARY, "crates/windlass-server/src/"];

const ONE_TYPE: Rule = Rule {
    name: "no two types of the library, or of the server, have the same name",
    fix: "choose a name that identifies the type; a reader must not need the imports",
    find: |tree| CRATES.iter().flat_map(|folder| duplicates(tree, folder)).collect(),
    caught: &[
        &[
            ("crates/windlass/src/worker/lease.rs", "pub(crate) struct Lease {}\n"),
            ("crates/windlass/src/setup/leases.rs", "enum Lease { Held }\n"),
        ],
        &[("crates/windlass/src/pull.rs", "trait Held {}\nmod a { struct Held<T>(T); }\n")],
        &[
            ("crates/windlass/src/pull.rs", "struct Held;\n"),
            ("crates/windlass/src/lane.rs", "pub(crate) type Held = Option<u8>;\n"),
        ],
        &[
            ("crates/windlass-server/src/web.rs", "struct Page;\n"),
            ("crates/windlass-server/src/api.rs", "struct Page;\n"),
        ],
    ],
    passes: &[
        &[
            (
                "crates/windlass/src/pull.rs",
                "/// A struct Held\nstruct Held;\nenum Heartbeat { Held(Held) }\n",
            ),
            ("crates/windlass/src/lane.rs", "#[cfg(test)]\nmod tests { struct Held; }\n"),
            ("crates/windlass/src/lane/tests.rs", "struct Held;\n"),
        ],
        &[
            ("crates/windlass/src/pull.rs", "struct Held;\n"),
            ("crates/windlass-server/src/pull.rs", "struct Held;\n"),
        ],
        &[(
            "crates/windlass/src/pull.rs",
            "struct Item;\nimpl Iterator for A {\n    type Item = u8;\n}\n#[cfg(a)]\ntype B = u8;\n#[cfg(b)]\ntype B = u16;\n",
        )],
    ],
};

fn duplicates(tree: &Tree, folder: &str) -> Vec<Place> {
    let mut seen: BTreeMap<&str, Vec<(&File, usize)>> = BTreeMap::new();
    for (file, source) in tree.rust().filter(|(file, _)| file.path.starts_with(folder) && !file.is_test()) {
        for keyword in ["struct ", "enum ", "trait ", "type "] {
            for offset in words(&source.code, keyword.trim_end()).filter(|at| !source.is_test(*at)) {
                let Some(rest) = source.code[offset..].strip_prefix(keyword) else { continue };
                let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
                let name = &rest[..end.unwrap_or(rest.len())];
                let places = seen.entry(name).or_default();
                let is_alternative = places.last().is_some_and(|(other, _)| other.path == file.path);
                if keyword == "type " && (is_alternative || !is_at_margin(&source.code, offset)) {
                    // An alias has one definition per platform, or it is a member of a trait.
                    continue;
                }
                places.push((file, offset));
            }
        }
    }
    let twice = seen.into_iter().filter(|(name, at)| at.len() > 1 && !name.is_empty());
    twice
        .flat_map(|(name, at)| {
            let where_else = at[0].0.path.clone();
            at.into_iter()
                .skip(1)
                .map(move |(file, offset)| file.place_at(offset, format!("`{name}` is also in {where_else}")))
        })
        .collect()
}

/// Whether only a visibility precedes the offset in its line.
fn is_at_margin(code: &str, offset: usize) -> bool {
    let before = code[..offset].rsplit('\n').next().unwrap_or_default();
    before.is_empty() || before.starts_with("pub")
}
