//! The two crates that are published contain everything that they are built from, and nothing needs a network to pack them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::tree::Tree;

/// A published crate, and the files of the repository without which it does not build.
const PUBLISHED: [(&str, &[&str]); 2] = [
    ("windlass", &["src/", "migrations/", "examples/"]),
    ("windlass-server", &["src/", "assets/", "templates/", "askama.toml"]),
];

fn cargo(arguments: &[&str]) -> String {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(program)
        .args(arguments)
        .current_dir(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")))
        .output()
        .expect("cargo is installed");
    assert!(output.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("paths are UTF-8")
}

#[test]
fn the_published_crates_contain_their_build_inputs() {
    let tree = Tree::of_this_repository();
    for (name, needed) in PUBLISHED {
        let listed = cargo(&["package", "--list", "--offline", "--allow-dirty", "-p", name]);
        let listed: Vec<&str> = listed.lines().collect();
        let prefix = format!("crates/{name}/");
        let own = tree.files.iter().filter_map(|file| file.path.strip_prefix(&prefix));
        let missing: Vec<&str> = own
            .filter(|path| needed.iter().any(|start| path.starts_with(start)))
            .filter(|path| !listed.contains(path))
            .collect();
        assert!(missing.is_empty(), "{name} is published without {missing:?}");
        for text in ["README.md", "LICENSE-APACHE", "LICENSE-MIT"] {
            assert!(listed.contains(&text), "{name} is published without {text}");
        }
        assert!(!listed.iter().any(|path| path.starts_with("tests/")), "{name} is published with its tests");
    }
    let server = cargo(&["package", "--list", "--offline", "--allow-dirty", "-p", "windlass-server"]);
    for path in ["embedded/examples/tts/run.sh", "embedded/clients/python/windlass/client.py"] {
        assert!(server.lines().any(|line| line == path), "windlass-server is published without {path}");
    }
}

#[test]
fn the_published_crates_are_packed_offline() {
    let directory = std::env::temp_dir().join(format!("windlass-package-{}", std::process::id()));
    let target = directory.to_str().expect("the temporary directory is UTF-8");
    let pack = ["package", "--no-verify", "--offline", "--allow-dirty", "--target-dir", target];
    cargo(&[&pack[..], &["-p", "windlass", "-p", "windlass-server"]].concat());
    for (name, _) in PUBLISHED {
        let file = directory.join(format!("package/{name}-{}.crate", env!("CARGO_PKG_VERSION")));
        assert!(file.is_file(), "{} was not written", file.display());
    }
    std::fs::remove_dir_all(directory).expect("the packages are ours");
}

#[test]
fn only_these_crates_are_published() {
    let tree = Tree::of_this_repository();
    let manifests = tree
        .files
        .iter()
        .filter(|file| file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml"));
    let published = manifests.filter(|file| file.text.contains("\npublish = true\n"));
    let names: BTreeSet<&str> = published.filter_map(|file| file.path.split('/').nth(1)).collect();
    assert_eq!(names, PUBLISHED.map(|(name, _)| name).into());
}
