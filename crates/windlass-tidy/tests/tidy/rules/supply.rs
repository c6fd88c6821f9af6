//! The dependencies: used, locked, from the registry, with a checksum, and not older than the fix of a known vulnerability.
//!
//! Advisory databases are not read here, because the tests run offline; `cargo audit` and `cargo deny` read them.

use crate::rule::{Place, Rule};
use crate::source::words;
use crate::tree::File;

pub(crate) const RULES: &[&Rule] = &[&FROM_THE_REGISTRY, &NOT_BELOW_THE_FLOOR, &LOCKED, &USED];

/// The oldest version of each that has the fix.
const FLOORS: &[(&str, [u64; 3], &str)] = &[
    ("sqlx-core", [0, 8, 1], "RUSTSEC-2024-0363: lengths beyond 4 GiB smuggle statements"),
    ("jsonwebtoken", [10, 3, 0], "claims of the wrong type pass unchecked"),
    ("tracing-subscriber", [0, 3, 20], "RUSTSEC-2025-0055: escape sequences reach the terminal"),
];

/// A package of the lock file, by its fields.
struct Package<'a> {
    line: usize,
    fields: Vec<(&'a str, &'a str)>,
}

impl Package<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| *value)
    }
}

fn packages(file: &File) -> Vec<Package<'_>> {
    let mut packages: Vec<Package<'_>> = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        if line == "[[package]]" {
            packages.push(Package { line: number + 1, fields: Vec::new() });
        } else if let (Some((name, value)), Some(package)) = (line.split_once(" = "), packages.last_mut()) {
            package.fields.push((name, value.trim_matches('"')));
        }
    }
    packages
}

fn each(tree: &crate::tree::Tree, wrong: impl Fn(&Package<'_>) -> Option<String>) -> Vec<Place> {
    let locks = tree.files.iter().filter(|file| file.path == "Cargo.lock");
    locks
        .flat_map(|file| packages(file).into_iter().map(move |package| (file, package)))
        .filter_map(|(file, package)| Some(file.place(package.line, wrong(&package)?)))
        .collect()
}

const FROM_THE_REGISTRY: Rule = Rule {
    name: "every dependency comes from the registry, with its checksum",
    fix: "use a published version; a repository or a mirror can change",
    find: |tree| {
        each(tree, |package| {
            let name = package.get("name").unwrap_or_default();
            match (package.get("source"), package.get("checksum")) {
                (None, _) => None, // our own
                (Some(source), _) if !source.starts_with("registry+") => {
                    Some(format!("{name} is from {source}"))
                }
                (_, None) => Some(format!("{name} has no checksum")),
                _ => None,
            }
        })
    },
    caught: &[
        &[(
            "Cargo.lock",
            "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"git+https://example.com/a#1\"\n",
        )],
        &[("Cargo.lock", "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"registry+x\"\n")],
    ],
    passes: &[&[(
        "Cargo.lock",
        "[[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"registry+x\"\nchecksum = \"0\"\n",
    )]],
};

const NOT_BELOW_THE_FLOOR: Rule = Rule {
    name: "no dependency is older than the fix of a known vulnerability",
    fix: "update it in Cargo.lock",
    find: |tree| {
        each(tree, |package| {
            let (_, floor, why) = FLOORS.iter().find(|(name, ..)| package.get("name") == Some(name))?;
            let version = version(package.get("version")?);
            (version < *floor).then(|| format!("must be at least {floor:?}: {why}"))
        })
    },
    caught: &[
        &[("Cargo.lock", "[[package]]\nname = \"sqlx-core\"\nversion = \"0.8.0\"\n")],
        &[("Cargo.lock", "[[package]]\nname = \"jsonwebtoken\"\nversion = \"9.3.1\"\n")],
    ],
    passes: &[&[("Cargo.lock", "[[package]]\nname = \"sqlx-core\"\nversion = \"0.10.0\"\n")]],
};

fn version(text: &str) -> [u64; 3] {
    let mut parts = text.split(['.', '-', '+']).map(|part| part.parse().unwrap_or(0));
    std::array::from_fn(|_| parts.next().unwrap_or(0))
}

const LOCKED: Rule = Rule {
    name: "the versions are locked",
    fix: "commit Cargo.lock",
    find: |tree| {
        let has_workspace = tree.files.iter().find(|file| file.path == "Cargo.toml");
        has_workspace
            .filter(|_| !tree.has("Cargo.lock"))
            .map(|file| file.place(1, "no Cargo.lock"))
            .into_iter()
            .collect()
    },
    caught: &[&[("Cargo.toml", "[workspace]\n")]],
    passes: &[&[("Cargo.toml", "[workspace]\n"), ("Cargo.lock", "version = 4\n")]],
};

const USED: Rule = Rule {
    name: "every dependency of a crate is used in its source",
    fix: "remove it from Cargo.toml: everyone who builds the crate compiles it",
    find: |tree| {
        let manifests = tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml"));
        manifests.flat_map(|manifest| unused(tree, manifest)).collect()
    },
    caught: &[&[
        ("crates/a/Cargo.toml", "[dependencies]\nserde-json.workspace = true\nlog = \"1\"\n"),
        ("crates/a/src/lib.rs", "use serde_json::Value; // not log\n"),
    ]],
    passes: &[&[
        (
            "crates/a/Cargo.toml",
            "[package]\nname = \"a\"\n\n[dependencies]\nserde-json.workspace = true\n\n[dev-dependencies]\nlog = \"1\"\n",
        ),
        ("crates/a/src/lib.rs", "use serde_json::Value;\n"),
    ]],
};

fn unused(tree: &crate::tree::Tree, manifest: &File) -> Vec<Place> {
    let sources = manifest.path.replace("Cargo.toml", "src/");
    let mut section = "";
    let mut places = Vec::new();
    for (number, line) in manifest.text.lines().enumerate() {
        if line.starts_with('[') {
            section = line;
        }
        let name = line.split([' ', '.', '=']).next().unwrap_or_default().replace('-', "_");
        if section != "[dependencies]" || name.is_empty() || name.starts_with(['[', '#']) {
            continue;
        }
        let is_used = tree
            .rust()
            .filter(|(file, _)| file.path.starts_with(&sources))
            .any(|(_, source)| words(&source.code, &name).next().is_some());
        if !is_used {
            places.push(manifest.place(number + 1, format!("{name} is not used")));
        }
    }
    places
}
