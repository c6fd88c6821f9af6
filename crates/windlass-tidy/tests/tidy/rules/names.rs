//! One name, one thing: in the library and in its documents.

use std::collections::BTreeMap;

use crate::rule::Rule;
use crate::source::words;
use crate::tree::{File, LIBRARY};

pub(crate) const RULES: &[&Rule] = &[&ONE_TYPE];

const ONE_TYPE: Rule = Rule {
    name: "no two types of the library have the same name",
    fix: "choose a name that identifies the type; a reader must not need the imports",
    find: |tree| {
        let mut seen: BTreeMap<&str, Vec<(&File, usize)>> = BTreeMap::new();
        for (file, source) in
            tree.rust().filter(|(file, _)| file.path.starts_with(LIBRARY) && !file.is_test())
        {
            for keyword in ["struct ", "enum ", "trait "] {
                for offset in words(&source.code, keyword.trim_end()).filter(|at| !source.is_test(*at)) {
                    let Some(rest) = source.code[offset..].strip_prefix(keyword) else { continue };
                    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
                    let name = &rest[..end.unwrap_or(rest.len())];
                    seen.entry(name).or_default().push((file, offset));
                }
            }
        }
        let twice = seen.into_iter().filter(|(name, at)| at.len() > 1 && !name.is_empty());
        twice
            .flat_map(|(name, at)| {
                let where_else = at[0].0.path.clone();
                at.into_iter().skip(1).map(move |(file, offset)| {
                    file.place_at(offset, format!("`{name}` is also in {where_else}"))
                })
            })
            .collect()
    },
    caught: &[
        &[
            ("crates/windlass/src/worker/lease.rs", "pub(crate) struct Lease {}\n"),
            ("crates/windlass/src/setup/leases.rs", "enum Lease { Held }\n"),
        ],
        &[("crates/windlass/src/pull.rs", "trait Held {}\nmod a { struct Held<T>(T); }\n")],
    ],
    passes: &[
        &[
            ("crates/windlass/src/pull.rs", "/// A struct Held\nstruct Held;\nenum Beat { Held(Held) }\n"),
            ("crates/windlass/src/lane.rs", "#[cfg(test)]\nmod tests { struct Held; }\n"),
            ("crates/windlass/src/lane/tests.rs", "struct Held;\n"),
        ],
        &[
            ("crates/windlass/src/pull.rs", "struct Held;\n"),
            ("crates/windlass-server/src/pull.rs", "struct Held;\n"),
        ],
    ],
};
