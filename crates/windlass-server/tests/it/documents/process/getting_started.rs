//! `docs/getting-started.md`, from an empty directory to finished jobs.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;
use tokio_postgres::NoTls;
use windlass_testing::{eventually, migrated};

use super::{Block, Desk, blocks};

#[tokio::test(flavor = "multi_thread")]
async fn every_step_of_getting_started_works() {
    let page = blocks("docs/getting-started.md");
    let mut page = page.iter();
    let database = migrated().await;
    let mut desk = Desk::new("");

    // The first block starts everything, on a database and a port of this test.
    let start = page.next().unwrap();
    assert_eq!(start.text, "windlass up --no-demo");
    // With `exec`, so that the signal at the end reaches the program.
    let start = Block { language: "sh".to_owned(), text: format!("exec {}", start.text), posted_to: None };
    let mut up = desk.command(&start);
    up.env("DATABASE_URL", database.url()).env("WINDLASS_LISTEN", "127.0.0.1:0").stdout(Stdio::piped());
    let mut up = up.spawn().unwrap();
    let ready = BufReader::new(up.stdout.take().unwrap()).lines().next_line().await.unwrap();
    desk.address = ready.unwrap().strip_prefix("ready: ").unwrap().to_owned();
    desk.set("WINDLASS_SERVER", desk.address.clone());

    let (client, connection) = tokio_postgres::connect(database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let mut worker: Option<Child> = None;
    let mut languages = Vec::new();
    for block in page {
        languages.push(block.language.as_str());
        match block.language.as_str() {
            // Compiled with the library's own doc tests.
            "rust" => {}
            "sql" => client.batch_execute(&block.text).await.unwrap(),
            "python" if block.text.contains("worker.run()") => {
                worker = Some(desk.command(block).spawn().unwrap());
            }
            _ => {
                desk.run(block).await;
            }
        }
    }
    for language in ["sh", "sql", "python", "js", "rust"] {
        assert!(languages.contains(&language), "nothing for {language}");
    }
    let done = "select count(*), count(*) filter (where status = 'succeeded') from windlass.jobs";
    eventually("all five jobs succeeded", async || {
        let row = client.query_one(done, &[]).await.unwrap();
        (row.get::<_, i64>(0), row.get::<_, i64>(1)) == (5, 5)
    })
    .await;

    for mut process in [worker.unwrap(), up] {
        let id = Pid::from_raw(i32::try_from(process.id().unwrap()).unwrap()).unwrap();
        kill_process(id, Signal::TERM).unwrap();
        process.wait().await.unwrap();
    }
}
