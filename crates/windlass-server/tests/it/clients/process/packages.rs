//! The packages as people install them: each is built, installed from the built file, runs its own suite of tests against a
//! real server and its database, has its types checked, and runs the programs of its README.

mod postgrest;

use std::fs;
use std::path::{Path, PathBuf};

use tokio::process::Command;
use windlass::{DEFAULT_TENANT, Definition};
use windlass_server::auth::Role;

use super::{Stage, terminate};
use crate::documents::Block;

/// A folder with a fresh copy of the client in `source`. What was downloaded is kept for the next run.
struct Workshop {
    folder: PathBuf,
    environment: Vec<(&'static str, String)>,
}

impl Workshop {
    fn new(client: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("package-{client}"));
        for old in ["source", "built", "test", "readme", "node_modules/windlass-client"] {
            let _ = fs::remove_dir_all(folder.join(old));
        }
        for new in ["built", "readme"] {
            fs::create_dir_all(folder.join(new)).unwrap();
        }
        let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients").join(client);
        let copied =
            std::process::Command::new("cp").arg("-r").arg(original).arg(folder.join("source")).status();
        assert!(copied.unwrap().success());
        Self { folder, environment: Vec::new() }
    }

    /// The variables that the suites and the programs read.
    async fn connect(&mut self, stage: &Stage) {
        let token = stage.server.client(DEFAULT_TENANT, Role::SuperAdmin).await.token.unwrap();
        self.environment = vec![
            ("WINDLASS_SERVER", stage.server.base.clone()),
            ("WINDLASS_TOKEN", token),
            ("DATABASE_URL", stage.server.queue.url().to_owned()),
        ];
    }

    /// The path of a program in this folder: absolute, because to which directory a relative one belongs depends on the platform.
    fn program(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// The path of the only file in `built`.
    fn built(&self) -> String {
        let mut files = fs::read_dir(self.folder.join("built")).unwrap();
        files.next().unwrap().unwrap().path().display().to_string()
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.folder).kill_on_drop(true);
        for variable in ["PYTHONPATH", "DATABASE_URL", "WINDLASS_SERVER", "WINDLASS_TOKEN"] {
            command.env_remove(variable);
        }
        command.env("PYTHONDONTWRITEBYTECODE", "1").envs(self.environment.iter().cloned());
        command
    }

    async fn run(&self, program: &str, arguments: &[&str]) {
        let output = self.command(program, arguments).output().await;
        let output = output.unwrap_or_else(|error| panic!("{program} cannot be started: {error}"));
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{program} {arguments:?}\n{out}\n{err}");
    }

    /// Runs the programs of the README. Those that wait for a result run beside each worker, which is stopped afterwards.
    async fn run_readme(&self, stage: &Stage, interpreter: &[&str], programs: &[(Block, String)]) {
        stage.server.queue.define(&Definition::new("resize")).await.unwrap();
        let client = stage.server.queue.client().await;
        client.batch_execute("create table picture (id bigint)").await.unwrap();
        let (workers, others): (Vec<_>, Vec<_>) =
            programs.iter().partition(|(block, _)| block.text.contains("worker.run"));
        assert!(!workers.is_empty() && !others.is_empty());
        let (program, options) = interpreter.split_first().unwrap();
        for (_, worker) in workers {
            let mut worker =
                self.command(program, &[options, &[worker.as_str()][..]].concat()).spawn().unwrap();
            for (_, other) in &others {
                self.run(program, &[options, &[other.as_str()][..]].concat()).await;
            }
            terminate(&mut worker).await;
        }
    }

    /// Writes the blocks of a README to files with this suffix.
    fn write(&self, page: &str, suffix: &str) -> Vec<(Block, String)> {
        let blocks = crate::documents::blocks(page).into_iter().enumerate();
        let written = blocks.map(|(number, block)| {
            let file = format!("readme/block_{number}.{suffix}");
            fs::write(self.folder.join(&file), &block.text).unwrap();
            (block, file)
        });
        written.collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_wheel_installs_and_passes_its_tests() {
    let mut workshop = Workshop::new("python");
    let [python, pip, pytest, mypy] =
        ["python", "pip", "pytest", "mypy"].map(|name| workshop.program(&format!("venv/bin/{name}")));
    if !Path::new(&pip).exists() {
        workshop.run("python3", &["-m", "venv", "venv"]).await;
    }
    workshop.run(&pip, &["wheel", "--quiet", "--no-deps", "--wheel-dir", "built", "./source"]).await;
    // Otherwise a wheel of the same version is not installed again.
    workshop.run(&pip, &["uninstall", "--quiet", "--yes", "windlass-client"]).await;
    workshop.run(&pip, &["install", "--quiet", &format!("{}[test]", workshop.built())]).await;
    workshop.run(&mypy, &["--strict", "--package", "windlass"]).await;
    workshop.run(&mypy, &["--strict", "source/tests/typed.py"]).await;

    let stage = Stage::start().await;
    let (tests, programs) = workshop
        .write("clients/python/README.md", "py")
        .into_iter()
        .partition::<Vec<_>, _>(|(block, _)| block.text.contains("def test_"));
    // With a server that the fixture starts.
    workshop.environment = vec![("WINDLASS_BINARY", env!("CARGO_BIN_EXE_windlass").to_owned())];
    for (_, test) in tests {
        workshop.run(&pytest, &["-q", "-p", "no:cacheprovider", &test]).await;
    }
    workshop.connect(&stage).await;
    workshop.run(&pytest, &["-q", "-p", "no:cacheprovider", "source/tests"]).await;
    workshop.run_readme(&stage, &[&python], &programs).await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_npm_package_installs_and_passes_its_tests() {
    let mut workshop = Workshop::new("typescript");
    fs::rename(workshop.folder.join("source/test"), workshop.folder.join("test")).unwrap();
    fs::write(workshop.folder.join("package.json"), r#"{"type": "module", "private": true}"#).unwrap();
    // It would say that a package of the same version is already installed.
    let _ = fs::remove_file(workshop.folder.join("node_modules/.package-lock.json"));
    workshop.run("npm", &["pack", "--silent", "--pack-destination", "built", "./source"]).await;
    let built = workshop.built();
    let install = ["install", "--silent", "--no-save", "--no-audit", "--no-fund", &built];
    let others = ["pg@8", "@types/pg@8", "@supabase/supabase-js@2", "typescript@5.9.3", "@types/node@20"];
    workshop.run("npm", &[&install[..], &others[..]].concat()).await;

    let compiler = workshop.program("node_modules/.bin/tsc");
    let strict = ["--strict", "--module", "nodenext", "--target", "es2022"];
    workshop.run(&compiler, &[&strict[..], &["--noEmit", "test/types.ts"]].concat()).await;
    let programs = workshop.write("clients/typescript/README.md", "ts");
    let sources: Vec<&str> = programs.iter().map(|(_, file)| file.as_str()).collect();
    // The types of other packages are not checked.
    workshop.run(&compiler, &[&strict[..], &["--skipLibCheck"], &sources].concat()).await;

    let stage = Stage::start().await;
    workshop.connect(&stage).await;
    let suite = ["--test", "test/client.test.js", "test/transaction.test.js", "test/worker.test.js"];
    workshop.run("node", &suite).await;
    workshop.environment.push(("SUPABASE_URL", postgrest::start(&stage.server.queue).await));
    workshop.environment.push(("SUPABASE_SERVICE_ROLE_KEY", "key".to_owned()));
    let compiled = |(block, file): (Block, String)| (block, file.replace(".ts", ".js"));
    let programs: Vec<_> = programs.into_iter().map(compiled).collect();
    workshop.run_readme(&stage, &["node", "--experimental-websocket"], &programs).await;
    stage.end().await;
}
