//! The oldest supported Rust is the same wherever it is named. clippy's `incompatible_msrv` checks the code against it, and CI builds with it.

use crate::rule::{Place, Rule};
use crate::tree::{File, Tree};

pub(crate) const RULES: &[&Rule] = &[&ONE_VERSION];

const ONE_VERSION: Rule = Rule {
    name: "the oldest supported Rust is the same in Cargo.toml, clippy.toml and the documents",
    fix: "write the version of rust-version in Cargo.toml",
    find: |tree| {
        let Some(manifest) = tree.files.iter().find(|file| file.path == "Cargo.toml") else {
            return Vec::new();
        };
        let Some(version) = setting(manifest, "rust-version") else {
            return vec![manifest.place(1, "no rust-version")];
        };
        let mut wrong = Vec::new();
        if let Some(file) = tree.files.iter().find(|file| file.path == "clippy.toml")
            && setting(file, "msrv") != Some(version)
        {
            wrong.push(file.place(1, format!("msrv is not {version:?}")));
        }
        wrong.extend(documents(tree).flat_map(|file| other_versions(file, version)));
        wrong
    },
    caught: &[
        &[("Cargo.toml", "[workspace.package]\nedition = \"2024\"\n")],
        &[("Cargo.toml", "rust-version = \"1.91\"\n"), ("clippy.toml", "msrv = \"1.90\"\n")],
        &[("Cargo.toml", "rust-version = \"1.91\"\n"), ("clippy.toml", "allow-unwrap-in-tests = true\n")],
        &[("Cargo.toml", "rust-version = \"1.91\"\n"), ("docs/a.md", "You need Rust 1.85 or newer.\n")],
    ],
    passes: &[
        &[
            ("Cargo.toml", "rust-version = \"1.91\"\n"),
            ("clippy.toml", "msrv = \"1.91\"\n"),
            ("docs/a.md", "You need Rust 1.91 or newer, and Rust 1.91.\n"),
            ("CHANGELOG.md", "It needed Rust 1.85.\n"),
        ],
        &[("docs/a.md", "You need Rust.\n")],
    ],
};

/// The history of changes names earlier versions.
fn documents(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.ending(".md").filter(|file| file.path != "CHANGELOG.md")
}

/// The value of `name = "value"` on its own line.
fn setting<'a>(file: &'a File, name: &str) -> Option<&'a str> {
    let values = file.text.lines().filter_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix('='));
    values.map(|value| value.trim().trim_matches('"')).next()
}

fn other_versions(file: &File, version: &str) -> Vec<Place> {
    let named = file.text.match_indices("Rust 1.").filter(|(offset, _)| {
        let rest = &file.text[offset + "Rust ".len()..];
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        rest[..end].trim_end_matches('.') != version
    });
    named
        .map(|(offset, _)| file.place_at(offset, format!("the oldest supported Rust is {version}")))
        .collect()
}
