//! The demo that `./dev up` runs: from an empty directory to finished jobs of both tenants, and a clean end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;
use uuid::Uuid;

#[tokio::test]
async fn the_demo_runs_jobs_of_both_tenants_and_ends_by_itself() {
    let scratch = Scratch::new();
    let output = demo(&["--seconds", "3"], &scratch.0).output().await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));

    for tenant in ["acme", "corner-shop"] {
        let summary = said.lines().rev().find(|line| line.starts_with(tenant)).expect(tenant);
        let finished: u64 = summary.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(finished > 0 && summary.contains("succeeded"), "{summary}");
        assert!(!summary.contains("running"), "a clean end leaves nothing running: {summary}");
    }
    assert!(!said.contains('\x1b'), "there is no terminal to paint on: {said}");
    let server_file = scratch.0.join(".dev/postgres/postmaster.pid");
    assert!(!server_file.exists(), "its server must have stopped with it");
}

#[tokio::test]
async fn the_demo_explains_itself_and_refuses_what_it_does_not_know() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let help = demo(&["--help"], directory).output().await.unwrap();
    assert!(help.status.success());
    assert!(String::from_utf8(help.stdout).unwrap().contains("--seconds N"));

    let refused = demo(&["--colour"], directory).output().await.unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("--colour"));
}

/// Without DATABASE_URL: it starts its own Postgres below its directory.
fn demo(arguments: &[&str], directory: &Path) -> Command {
    let test_program = std::env::current_exe().unwrap();
    let program = test_program.parent().unwrap().with_file_name("examples").join("demo");
    assert!(program.is_file(), "run the whole package's tests once to build {}", program.display());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory).env_remove("DATABASE_URL").stdin(Stdio::null());
    command.kill_on_drop(true);
    command
}

struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().simple().to_string());
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
