//! Compiles the TypeScript of the example, once for each state of its sources. The compiler checks the types as well.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use super::super::{program, root, succeed};

/// The folder with the compiled programs.
pub(super) async fn compiled() -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/typescript");
    fs::create_dir_all(&target).unwrap();
    let target = target.canonicalize().unwrap();
    // Tests run in parallel processes; the first one downloads the compiler and compiles.
    let lock = fs::File::create(target.join("lock")).unwrap();
    lock.lock().unwrap();
    let sources = sources();
    let mut hasher = DefaultHasher::new();
    sources.hash(&mut hasher);
    let compiled = target.join(format!("dist-{:016x}", hasher.finish()));
    if compiled.exists() {
        return compiled;
    }

    let project = std::env::temp_dir().join(format!("windlass-typescript-{}", uuid::Uuid::new_v4()));
    fs::create_dir_all(project.join("node_modules")).unwrap();
    for (name, text) in &sources {
        fs::write(project.join(name), text).unwrap();
    }
    let compiler = compiler(&target).await;
    let client = root().join("../clients/typescript").canonicalize().unwrap();
    for (to, name) in [
        (client, "windlass-client"),
        (compiler.join("@types"), "@types"),
        (compiler.join("undici-types"), "undici-types"),
    ] {
        std::os::unix::fs::symlink(to, project.join("node_modules").join(name)).unwrap();
    }
    let mut compile = program("node");
    compile.arg(compiler.join("typescript/bin/tsc")).arg("-p").arg(&project);
    succeed(compile.spawn().unwrap(), "tsc").await;
    // Renamed when it is complete, so that an interrupted run leaves nothing.
    let own = target.join(format!("dist-{}", uuid::Uuid::new_v4()));
    copy(&project.join("dist"), &own);
    fs::remove_dir_all(&project).unwrap();
    fs::rename(&own, &compiled).unwrap();
    compiled
}

/// The modules of the compiler, downloaded once.
async fn compiler(target: &Path) -> PathBuf {
    let modules = target.join("node_modules");
    if !modules.join("@types/node").exists() || !modules.join("typescript").exists() {
        let mut install = program("npm");
        install.args(["install", "--silent", "--no-save", "--no-audit", "--no-fund", "--prefix"]);
        install.arg(target).args(["typescript@5.9.3", "@types/node@20"]);
        succeed(install.spawn().unwrap(), "npm install").await;
    }
    modules
}

fn sources() -> Vec<(String, String)> {
    let folder = fs::read_dir(root().join("call-transcription")).unwrap();
    let mut sources: Vec<_> = folder
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "ts" || suffix == "json"))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    sources.sort();
    sources
}

pub(super) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
