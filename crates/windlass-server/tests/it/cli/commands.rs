//! Every command has a description, and invalid input is rejected with the right exit code and advice.

use clap::Command;
use uuid::Uuid;
use windlass::setup::embedded::{Options, Postgres};
use windlass_server::cli::exit::Exit;
use windlass_server::cli::tree;
use windlass_testing::{TestQueue, migrated};

use super::run;

/// Every command below this one, with the words to reach it.
pub(crate) fn commands(command: &Command, words: &[String]) -> Vec<(Vec<String>, Command)> {
    let mut found = Vec::new();
    for child in command.get_subcommands().filter(|child| child.get_name() != "help" && !child.is_hide_set())
    {
        let words: Vec<String> = words.iter().cloned().chain([child.get_name().to_owned()]).collect();
        found.push((words.clone(), child.clone()));
        found.extend(commands(child, &words));
    }
    found
}

#[test]
fn every_command_and_every_option_has_a_description() {
    tree().debug_assert();
    let all = commands(&tree(), &[]);
    assert!(all.len() > 30, "{}", all.len());
    for (words, command) in all {
        assert!(command.get_about().is_some(), "{words:?} has no description");
        for argument in command.get_arguments() {
            assert!(argument.get_help().is_some(), "{words:?}: {} is not explained", argument.get_id());
        }
    }
}

#[tokio::test]
async fn help_is_printed_on_standard_output_and_lists_the_exit_codes() {
    let help = run(&["--help"]).await.expect(0);
    for exit in Exit::ALL {
        assert!(help.out.contains(&format!("{:>3}  {}", exit.code(), exit.meaning())), "{}", help.out);
    }
    for words in
        [vec!["jobs", "enqueue", "--help"], vec!["definitions", "apply", "--help"], vec!["up", "--help"]]
    {
        let help = run(&words).await.expect(0);
        assert!(help.out.contains("Example") || help.out.contains("The file"), "{words:?}: {}", help.out);
    }
}

#[tokio::test]
async fn an_invalid_argument_exits_with_2_and_is_named() {
    for (arguments, named) in [
        (vec!["job"], "jobs"),
        (vec!["jobs", "list", "--colour"], "--colour"),
        (vec!["jobs", "enqueue", "x", "--payload", "{"], "--payload"),
        (vec!["jobs", "enqueue", "x", "--in", "soon"], "5m"),
        (vec!["jobs", "cancel"], "--status"),
        (vec!["--server", "localhost", "summary"], "http://"),
        (vec!["keeper", "--once", "dust"], "must be one of promote"),
        (vec!["migrate"], "--database-url"),
        (vec!["doctor", "--database-url", "nonsense"], "must be a URL such as postgresql://"),
        (vec!["config", "check", "--config", "/nowhere.toml"], "  /nowhere.toml: cannot read the file"),
        (vec!["worker"], "`windlass worker --help` shows an example"),
        (vec!["worker", "--concurrency", "many"], "must be a whole number of at least 1"),
        (vec!["definitions", "apply", "/nowhere.toml"], "/nowhere.toml"),
    ] {
        let ran = run(&arguments).await.expect(2);
        assert!(ran.err.contains(named), "{arguments:?}: {}", ran.err);
        assert!(ran.out.is_empty() && !ran.err.contains("EOF"), "{ran:?}");
    }
    let help = run(&["worker", "--help"]).await.expect(0).out;
    assert!(help.contains("[commands.sync-dropbox]"), "{help}");
}

#[tokio::test]
async fn an_unreachable_server_or_database_exits_with_3_and_gives_advice() {
    let ran = run(&["summary", "--server", "http://127.0.0.1:1"]).await.expect(3);
    assert!(
        ran.err.contains("cannot reach http://127.0.0.1:1") && ran.err.contains("windlass up"),
        "{}",
        ran.err
    );
    let ran = run(&["doctor", "--database-url", "postgresql://nobody:hunter2@127.0.0.1:1/x"]).await.expect(3);
    assert!(ran.err.contains("try:") && !ran.err.contains("hunter2"), "{}", ran.err);
}

/// None of these is an internal error, and none goes away when the server is started.
#[tokio::test]
async fn an_unknown_database_and_a_rejected_login_have_their_own_exit_codes() {
    let database = migrated().await;
    let url = database.url();
    let name = url.split('?').next().unwrap().rsplit('/').next().unwrap();
    let elsewhere = url.replace(&format!("/{name}"), "/nowhere");
    let stranger = url.replace("windlass@", "nobody_knows@");
    for command in [vec!["doctor"], vec!["jobs", "list"], vec!["audit", "head"], vec!["migrate"]] {
        let of =
            |url: &str| command.iter().map(ToString::to_string).chain(["--database-url".into(), url.into()]);
        let arguments: Vec<String> = of(&elsewhere).collect();
        let ran = run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).await.expect(2);
        assert!(ran.err.contains("database \"nowhere\" does not exist"), "{command:?}: {}", ran.err);
        assert!(
            ran.err.contains("check the name") && !ran.err.contains("reached"),
            "{command:?}: {}",
            ran.err
        );
        let arguments: Vec<String> = of(&stranger).collect();
        let ran = run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).await.expect(4);
        assert!(ran.err.contains("rejected the login"), "{command:?}: {}", ran.err);
        assert!(ran.err.contains("role \"nobody_knows\" does not exist"), "{command:?}: {}", ran.err);
        assert!(ran.err.contains("the user and the password"), "{command:?}: {}", ran.err);
    }
}

#[tokio::test]
async fn the_configuration_is_checked_as_a_whole() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("mistaken.toml");
    std::fs::write(&file, "[http]\nlisten = 'x'\nspeed = 1\n").unwrap();
    let path = file.to_str().unwrap();
    let ran = run(&["config", "check", "--config", path]).await.expect(2);
    assert!(ran.err.contains("2 errors"), "{}", ran.err);
    assert!(
        ran.err.contains(&format!("{path}:2: http.listen:"))
            && ran.err.contains(&format!("{path}:3: http.speed:"))
    );
    let ran = run(&["config", "check", "--config", path, "--json"]).await.expect(2);
    assert_eq!(ran.json()["mistakes"].as_array().unwrap().len(), 2);

    std::fs::write(&file, run(&["config", "example"]).await.expect(0).out).unwrap();
    run(&["config", "check", "--config", path]).await.expect(0);
}

#[tokio::test]
async fn completions_and_sql_are_printed_without_anything_else() {
    assert!(run(&["completions", "bash"]).await.expect(0).out.contains("_windlass()"));
    assert!(run(&["completions", "tcsh"]).await.expect(2).err.contains("tcsh"));
    let sql = run(&["migrate", "--print-sql"]).await.expect(0).out;
    assert!(sql.contains("create table windlass.job"));
    let openapi = run(&["openapi"]).await.expect(0).json();
    assert!(openapi["openapi"].as_str().unwrap().starts_with("3.1"));
}

#[tokio::test]
async fn the_doctor_passes_a_healthy_queue_and_fails_a_broken_one() {
    // With the settings of a production server; the server of the tests runs without fsync.
    let folder = std::env::temp_dir().join(format!("windlass-doctor-{}", Uuid::new_v4()));
    let postgres = Postgres::start(&Options::new(folder.clone()).unwrap()).await.unwrap();
    run(&["migrate", "--database-url", &postgres.url()]).await.expect(0);
    let ran = run(&["doctor", "--json", "--database-url", &postgres.url()]).await.expect(0);
    assert_ne!(ran.json()["worst"], "danger");
    postgres.stop().await.unwrap();
    std::fs::remove_dir_all(&folder).unwrap();

    let queue = TestQueue::create().await;

    let client = queue.client().await;
    let broken = "drop function windlass.fold_tallies; delete from windlass.migration where version = 3";
    client.batch_execute(broken).await.unwrap();
    let ran = run(&["doctor", "--quiet", "--database-url", queue.url()]).await.expect(1);
    assert!(ran.out.contains("danger") && ran.out.contains("windlass migrate"), "{}", ran.out);
}

#[tokio::test]
async fn a_database_is_migrated_once_and_maintained_by_hand() {
    let database = migrated().await;
    let ran = run(&["migrate", "--database-url", database.url()]).await.expect(0);
    assert!(ran.out.contains("up to date"), "{}", ran.out);
    let ran =
        run(&["keeper", "--once", "promote", "--json", "--database-url", database.url()]).await.expect(0);
    assert_eq!(ran.json()["duty"], "promote");
    let ran = run(&["keeper", "--once", "dust", "--database-url", database.url()]).await.expect(2);
    assert!(ran.err.contains("promote, ") && ran.err.contains(", reap,"), "{}", ran.err);
}

#[tokio::test]
async fn every_shell_has_completions() {
    for (shell, word) in [
        ("bash", "_windlass()"),
        ("zsh", "#compdef windlass"),
        ("fish", "complete -c windlass"),
        ("elvish", "edit:completion"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let script = run(&["completions", shell]).await.expect(0).out;
        assert!(script.contains(word) && script.contains("definitions"), "{shell}: {}", &script[..200]);
    }
}
