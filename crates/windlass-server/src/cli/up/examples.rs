//! The examples that `windlass up --example NAME` runs. Each is a folder of the repository, embedded in the binary and
//! written to the data directory; its `run.sh` sets it up and starts its programs, as its README describes.
//!
//! How it stops: all its programs are one process group, which is signaled and waited for.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use crate::cli::exit::Failure;

/// A folder of `examples/`.
pub(super) struct Example {
    name: &'static str,
    /// The programs it starts, each with its Debian package.
    needs: &'static [(&'static str, &'static str)],
    files: &'static [(&'static str, &'static str)],
    /// The tenant of its first jobs.
    pub(super) tenant: &'static str,
    /// What to try; `DATABASE` is replaced with the URL of the database.
    hint: &'static str,
}

const PYTHON: (&str, &str) = ("python3", "python3");
const PSQL: (&str, &str) = ("psql", "postgresql-client");

// Through links in the crate, because a published crate has only the files below its own directory.
macro_rules! files {
    ($($name:literal from $path:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../embedded/", $path)))),*]
    };
}

const ALL: [Example; 5] = [
    Example {
        name: "ai-tagging",
        needs: &[PYTHON, PSQL],
        files: files![
            "schema.sql" from "examples/ai-tagging/schema.sql",
            "members.sql" from "examples/ai-tagging/members.sql",
            "demo.sql" from "examples/ai-tagging/demo.sql",
            "function.py" from "examples/ai-tagging/function.py",
            "worker.toml" from "examples/ai-tagging/worker.toml",
            "run.sh" from "examples/ai-tagging/run.sh",
        ],
        tenant: "noodle-club",
        hint: "psql DATABASE -c \"insert into workspace_threads_posts (workspace_threads_account_id, content) select id, 'ramen at midnight' from workspace_threads_accounts limit 1\"",
    },
    Example {
        name: "tts",
        needs: &[PYTHON, ("espeak-ng", "espeak-ng")],
        files: files![
            "definitions.json" from "examples/tts/definitions.json",
            "audio.py" from "examples/tts/audio.py",
            "service.py" from "examples/tts/service.py",
            "worker.py" from "examples/tts/worker.py",
            "dialogue.json" from "examples/tts/dialogue.json",
            "run.sh" from "examples/tts/run.sh",
            "windlass/__init__.py" from "clients/python/windlass/__init__.py",
            "windlass/aio.py" from "clients/python/windlass/aio.py",
            "windlass/client.py" from "clients/python/windlass/client.py",
            "windlass/encoding.py" from "clients/python/windlass/encoding.py",
            "windlass/errors.py" from "clients/python/windlass/errors.py",
            "windlass/job.py" from "clients/python/windlass/job.py",
            "windlass/statement.py" from "clients/python/windlass/statement.py",
            "windlass/transaction.py" from "clients/python/windlass/transaction.py",
            "windlass/transport.py" from "clients/python/windlass/transport.py",
            "windlass/worker.py" from "clients/python/windlass/worker.py",
        ],
        tenant: "default",
        hint: "curl -H 'X-User-Id: 5f0c6e58-7f5e-4b1e-9d52-0a7b8d3c1e11' http://127.0.0.1:8202/jobs",
    },
    Example {
        name: "clipnest",
        needs: &[PYTHON, PSQL],
        files: files![
            "schema.sql" from "examples/clipnest/schema.sql",
            "definitions.json" from "examples/clipnest/definitions.json",
            "functions.py" from "examples/clipnest/functions.py",
            "worker.toml" from "examples/clipnest/worker.toml",
            "run.sh" from "examples/clipnest/run.sh",
        ],
        tenant: "default",
        hint: "psql DATABASE -c \"insert into clipnest_videos (video_url) values ('http://127.0.0.1:8301/harbour.html')\"",
    },
    Example {
        name: "call-transcription",
        needs: &[("node", "nodejs"), ("npm", "npm"), PSQL],
        files: files![
            "definitions.json" from "examples/call-transcription/definitions.json",
            "schema.sql" from "examples/call-transcription/schema.sql",
            "package.json" from "examples/call-transcription/package.json",
            "run.sh" from "examples/call-transcription/run.sh",
            "tsconfig.json" from "examples/call-transcription/tsconfig.json",
            "artifacts.ts" from "examples/call-transcription/artifacts.ts",
            "job-queue.ts" from "examples/call-transcription/job-queue.ts",
            "main.ts" from "examples/call-transcription/main.ts",
            "memory-main.ts" from "examples/call-transcription/memory-main.ts",
            "memory-queue.ts" from "examples/call-transcription/memory-queue.ts",
            "speech-main.ts" from "examples/call-transcription/speech-main.ts",
            "speech-service.ts" from "examples/call-transcription/speech-service.ts",
            "stages.ts" from "examples/call-transcription/stages.ts",
            "tones.ts" from "examples/call-transcription/tones.ts",
            "windlass-queue.ts" from "examples/call-transcription/windlass-queue.ts",
            "worker-loop.ts" from "examples/call-transcription/worker-loop.ts",
            "node_modules/windlass-client/package.json" from "clients/typescript/package.json",
            "node_modules/windlass-client/index.js" from "clients/typescript/index.js",
            "node_modules/windlass-client/index.d.ts" from "clients/typescript/index.d.ts",
            "node_modules/windlass-client/client.js" from "clients/typescript/client.js",
            "node_modules/windlass-client/job.js" from "clients/typescript/job.js",
            "node_modules/windlass-client/transaction.js" from "clients/typescript/transaction.js",
            "node_modules/windlass-client/worker.js" from "clients/typescript/worker.js",
            "node_modules/windlass-client/job-queue.js" from "clients/typescript/job-queue.js",
            "node_modules/windlass-client/job-queue.d.ts" from "clients/typescript/job-queue.d.ts",
        ],
        tenant: "default",
        hint: "psql DATABASE -c 'select * from call_artifacts'    (the results of the four stages of a call)",
    },
    Example {
        name: "zoltag",
        needs: &[PYTHON, ("curl", "curl")],
        files: files![
            "worker.toml" from "examples/zoltag/worker.toml",
            "zoltag" from "examples/zoltag/zoltag",
            "folder-updated.json" from "examples/zoltag/folder-updated.json",
            "nightly.json" from "examples/zoltag/nightly.json",
            "enqueue.json" from "examples/zoltag/enqueue.json",
            "run.sh" from "examples/zoltag/run.sh",
        ],
        tenant: "acme",
        hint: "open the Jobs page of acme and of bcg, and the Workers page: one of the three workers was killed while it ran a job",
    },
];

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|example| example.name)
}

pub(super) fn find(name: &str) -> Result<&'static Example, Failure> {
    ALL.iter().find(|example| example.name == name).ok_or_else(|| {
        let known: Vec<&str> = names().collect();
        Failure::usage(format!("example {name:?} not found"))
            .advise(format!("the examples are {}", known.join(", ")))
    })
}

/// The environment of an example's programs.
pub(super) struct Surroundings<'a> {
    pub(super) data_dir: &'a Path,
    pub(super) database_url: &'a str,
    pub(super) address: &'a str,
    pub(super) token_file: &'a Path,
}

/// A running example.
pub(super) struct RunningExample(Child);

impl Example {
    /// What to try.
    pub(super) fn hint(&self, database_url: Option<&str>) -> String {
        let database = database_url.map_or_else(|| "\"$DATABASE_URL\"".to_owned(), |url| format!("'{url}'"));
        self.hint.replace("DATABASE", &database)
    }

    /// Before anything is started, so that a missing program is not found halfway.
    pub(super) fn check_needs(&self) -> Result<(), Failure> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there =
            |program: &str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
        let missing: Vec<_> = self.needs.iter().filter(|(program, _)| !is_there(program)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let programs: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
        let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
        Err(Failure::usage(format!(
            "the example {} needs {}, not found in PATH",
            self.name,
            programs.join(" and ")
        ))
        .advise(format!("apt-get install {}", packages.join(" "))))
    }

    pub(super) fn start(&self, around: &Surroundings<'_>) -> Result<RunningExample, Failure> {
        let folder = std::path::absolute(around.data_dir)?.join("examples").join(self.name);
        self.write(&folder)
            .map_err(|error| Failure::usage(format!("cannot write {}: {error}", folder.display())))?;
        let child = Command::new("sh")
            .arg("run.sh")
            .current_dir(&folder)
            .env("WINDLASS", std::env::current_exe()?)
            .env("WINDLASS_SERVER", around.address)
            .env("WINDLASS_TOKEN_FILE", std::path::absolute(around.token_file)?)
            .env("DATABASE_URL", around.database_url)
            .env("PYTHONPATH", &folder)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .stdout(fs::File::create(folder.join("output"))?)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        Ok(RunningExample(child))
    }

    fn write(&self, folder: &Path) -> std::io::Result<()> {
        for (name, content) in self.files {
            let path: PathBuf = folder.join(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(&path, content)?;
            if content.starts_with("#!") {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
            }
        }
        Ok(())
    }
}

impl RunningExample {
    /// Resolves if its script fails.
    pub(super) async fn failure(&mut self) -> std::process::ExitStatus {
        match self.0.wait().await {
            Ok(status) if !status.success() => status,
            _ => std::future::pending().await,
        }
    }

    pub(super) async fn stop(mut self) {
        let group = self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(group) = group {
            // If it has already ended, there is nothing to signal.
            let _ = kill_process_group(group, Signal::TERM);
        }
        let _ = self.0.wait().await;
    }
}
