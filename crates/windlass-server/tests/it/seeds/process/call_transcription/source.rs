//! What is shipped is what the TypeScript says. `WINDLASS_BLESS=1` compiles it again.

use std::fs;
use std::path::Path;

use super::super::{program, root, succeed};

#[tokio::test(flavor = "multi_thread")]
async fn the_programs_of_call_transcription_are_what_their_source_says() {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/typescript");
    fs::create_dir_all(&target).unwrap();
    let modules = target.canonicalize().unwrap().join("node_modules");
    if !modules.join("@types/node").exists() || !modules.join("typescript").exists() {
        let mut install = program("npm");
        install.args(["install", "--silent", "--no-save", "--no-audit", "--no-fund", "--prefix"]);
        install.arg(&target).args(["typescript@5.9.3", "@types/node@20"]);
        succeed(install.spawn().unwrap(), "npm install").await;
    }
    let example = root().join("call-transcription");
    let project = std::env::temp_dir().join(format!("windlass-typescript-{}", uuid::Uuid::new_v4()));
    fs::create_dir_all(project.join("node_modules")).unwrap();
    for entry in fs::read_dir(&example).unwrap() {
        let entry = entry.unwrap();
        if entry.path().extension().is_some_and(|suffix| suffix == "ts" || suffix == "json") {
            fs::copy(entry.path(), project.join(entry.file_name())).unwrap();
        }
    }
    let client = root().join("../clients/typescript").canonicalize().unwrap();
    for (to, name) in [
        (client, "windlass-client"),
        (modules.join("@types"), "@types"),
        (modules.join("undici-types"), "undici-types"),
    ] {
        std::os::unix::fs::symlink(to, project.join("node_modules").join(name)).unwrap();
    }
    // It checks the types on the way.
    let mut compile = program("node");
    compile.arg(modules.join("typescript/bin/tsc")).arg("-p").arg(&project);
    succeed(compile.spawn().unwrap(), "tsc").await;

    let (made, kept) = (programs(&project.join("dist")), example.join("dist"));
    fs::remove_dir_all(&project).unwrap();
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        let _ = fs::remove_dir_all(&kept);
        fs::create_dir_all(&kept).unwrap();
        for (name, text) in &made {
            fs::write(kept.join(name), text).unwrap();
        }
    }
    assert_eq!(programs(&kept), made, "dist/ is out of date: WINDLASS_BLESS=1 writes it again");
}

fn programs(folder: &Path) -> Vec<(String, String)> {
    let mut programs: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
        })
        .collect();
    programs.sort();
    programs
}
