//! The packages as people install them: each is built, installed from the built file, and runs its own suite of tests against a
//! real server and its database.

use std::fs;
use std::path::{Path, PathBuf};

use tokio::process::Command;
use windlass::DEFAULT_TENANT;
use windlass_server::auth::Role;

use super::Stage;

/// A folder with a fresh copy of the client in `source`. What was downloaded is kept for the next run.
fn workshop(client: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("package-{client}"));
    for old in ["source", "built", "test"] {
        let _ = fs::remove_dir_all(folder.join(old));
    }
    fs::create_dir_all(folder.join("built")).unwrap();
    let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients").join(client);
    let copied = std::process::Command::new("cp").arg("-r").arg(original).arg(folder.join("source")).status();
    assert!(copied.unwrap().success());
    folder
}

async fn run(folder: &Path, program: &str, arguments: &[&str], environment: &[(&str, &str)]) {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env_remove("PYTHONPATH").env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.envs(environment.iter().copied()).kill_on_drop(true).output().await;
    let output = output.unwrap_or_else(|error| panic!("{program} cannot be started: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}\n{out}\n{err}");
}

/// Runs the suite with the variables that it reads.
async fn run_suite(folder: &Path, program: &str, arguments: &[&str]) {
    let stage = Stage::start().await;
    let token = stage.server.client(DEFAULT_TENANT, Role::SuperAdmin).await.token.unwrap();
    let environment = [
        ("WINDLASS_SERVER", stage.server.base.as_str()),
        ("WINDLASS_TOKEN", token.as_str()),
        ("DATABASE_URL", stage.server.queue.url()),
    ];
    run(folder, program, arguments, &environment).await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_wheel_installs_and_passes_its_tests() {
    let folder = workshop("python");
    // Absolute, because it is platform-specific to which directory a relative program belongs.
    let [pip, pytest] =
        ["pip", "pytest"].map(|name| folder.join("venv/bin").join(name).display().to_string());
    if !Path::new(&pytest).exists() {
        run(&folder, "python3", &["-m", "venv", "venv"], &[]).await;
        let drivers = ["psycopg[binary]", "asyncpg", "sqlalchemy[asyncio]", "pytest"];
        run(&folder, &pip, &[&["install", "--quiet"], &drivers[..]].concat(), &[]).await;
    }
    run(&folder, &pip, &["wheel", "--quiet", "--no-deps", "--wheel-dir", "built", "./source"], &[]).await;
    let install =
        ["install", "--quiet", "--no-deps", "--force-reinstall", "--no-index", "--find-links", "built"];
    run(&folder, &pip, &[&install[..], &["windlass-client"]].concat(), &[]).await;
    run_suite(&folder, &pytest, &["-q", "-p", "no:cacheprovider", "source/tests"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_npm_package_installs_and_passes_its_tests() {
    let folder = workshop("typescript");
    fs::rename(folder.join("source/test"), folder.join("test")).unwrap();
    fs::write(folder.join("package.json"), r#"{"type": "module", "private": true}"#).unwrap();
    run(&folder, "npm", &["pack", "--silent", "--pack-destination", "built", "./source"], &[]).await;
    let built = fs::read_dir(folder.join("built")).unwrap().next().unwrap().unwrap().path();
    let built = built.to_str().unwrap();
    let install = ["install", "--silent", "--no-save", "--no-audit", "--no-fund", built, "pg@8"];
    run(&folder, "npm", &install, &[]).await;
    let suite = ["--test", "test/client.test.js", "test/transaction.test.js", "test/worker.test.js"];
    run_suite(&folder, "node", &suite).await;
}
