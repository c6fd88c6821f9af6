//! The subjects of the commits that this branch adds to the default branch. Where there is no git, no history or no default branch,
//! as in a source archive, there is nothing to check.

use std::process::Command;

const LONGEST: usize = 72;

#[test]
fn commit_subjects_have_at_most_72_characters() {
    let long = too_long(&subjects().unwrap_or_default());
    assert!(long.is_empty(), "shorten with `git commit --amend` or `git rebase -i`:\n{}", long.join("\n"));
}

#[test]
fn a_long_subject_is_found() {
    let (fits, long) = ("é".repeat(LONGEST), "e".repeat(LONGEST + 1));
    assert_eq!(too_long(&format!("{fits}\n{long}\n")), [long]);
}

fn too_long(subjects: &str) -> Vec<String> {
    subjects.lines().filter(|subject| subject.chars().count() > LONGEST).map(str::to_owned).collect()
}

fn subjects() -> Option<String> {
    let bases = ["origin/HEAD", "origin/main", "main"];
    let base = bases.iter().find_map(|branch| git(&["merge-base", branch, "HEAD"]))?;
    git(&["log", "--no-merges", "--format=%s", &format!("{}..HEAD", base.trim())])
}

/// The output of git, if it succeeds.
fn git(arguments: &[&str]) -> Option<String> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let safe = ["-c", "safe.directory=*"];
    let output = Command::new("git").args(safe).args(arguments).current_dir(root).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
