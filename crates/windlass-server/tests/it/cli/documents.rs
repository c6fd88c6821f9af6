//! The references match the program's own descriptions. `WINDLASS_BLESS=1` writes them again.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Command;
use windlass_server::cli::exit::Exit;
use windlass_server::cli::tree;
use windlass_server::config::settings;

use super::commands::commands;

#[test]
fn the_documented_commands_are_the_commands() {
    let mut table = String::from("| command | what it does |\n|---|---|\n");
    for (words, command) in commands(&tree(), &[]) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let arguments: Vec<String> = command.get_positionals().map(ToString::to_string).collect();
        let line =
            ["windlass".to_owned()].into_iter().chain(words).chain(arguments).collect::<Vec<_>>().join(" ");
        let _ = writeln!(table, "| `{line}` | {} |", cell(&about));
    }
    check("cli.md", "cli-commands", &table);
}

#[test]
fn the_documented_options_are_the_options() {
    let mut table = String::from("| command | option | meaning |\n|---|---|---|\n");
    let everywhere = |command: &Command, words: &str, table: &mut String| {
        for argument in
            command.get_arguments().filter(|argument| !argument.is_positional() && !argument.is_hide_set())
        {
            if matches!(argument.get_id().as_str(), "help" | "version") {
                continue;
            }
            let long = argument.get_long().unwrap_or_default();
            let value = argument
                .get_action()
                .takes_values()
                .then(|| argument.get_value_names().map(|names| format!(" {}", names.join(" "))))
                .flatten();
            let variable = argument
                .get_env()
                .map(|name| format!(" (or `{}`)", name.to_string_lossy()))
                .unwrap_or_default();
            let default: Vec<String> = argument
                .get_default_values()
                .iter()
                .map(|value| value.to_string_lossy().into_owned())
                .collect();
            let default = if default.is_empty() || !argument.get_action().takes_values() {
                String::new()
            } else {
                format!("; default `{}`", default.join(" "))
            };
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(
                table,
                "| {words} | `--{long}{}`{variable} | {}{default} |",
                value.unwrap_or_default(),
                cell(&help)
            );
        }
    };
    everywhere(&tree(), "every", &mut table);
    for (words, command) in commands(&tree(), &[]) {
        everywhere(&command, &format!("`{}`", words.join(" ")), &mut table);
    }
    check("cli.md", "cli-options", &table);
}

#[test]
fn the_documented_exit_codes_are_the_exit_codes() {
    let mut table = String::from("| code | meaning |\n|---:|---|\n");
    for exit in Exit::ALL {
        let _ = writeln!(table, "| {} | {} |", exit.code(), exit.meaning());
    }
    check("cli.md", "exit-codes", &table);
}

#[test]
fn the_documented_settings_are_the_settings() {
    let mut table = String::from("| setting | variable | default | meaning |\n|---|---|---|---|\n");
    for setting in settings() {
        let _ = writeln!(
            table,
            "| `{}` | `{}` | {} | {} |",
            setting.key,
            setting.variable,
            if setting.default == "–" { setting.default } else { format!("`{}`", setting.default) },
            cell(&setting.meaning)
        );
    }
    check("configuration.md", "configuration", &table);
}

#[test]
fn the_documented_routes_are_the_routes() {
    let document = windlass_server::http::document();
    let document = serde_json::to_value(&document).unwrap();
    let mut table = String::from("| route | permission | what it does |\n|---|---|---|\n");
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let text = |name: &str| operation[name].as_str().unwrap_or("–").to_owned();
            let _ = writeln!(
                table,
                "| `{} {path}` | {} | {} |",
                method.to_uppercase(),
                text("x-permission"),
                cell(&text("summary"))
            );
        }
    }
    check("api.md", "routes", &table);
}

/// For the words of the audit trail only the names are generated; they need no description.
#[test]
fn the_documented_actions_are_those_of_the_audit_trail() {
    let mut nouns: std::collections::BTreeMap<&str, Vec<String>> = std::collections::BTreeMap::new();
    for action in windlass::admin::Action::ALL.iter().filter(|action| !action.is_only_denied()) {
        let (noun, _) = action.as_str().split_once('.').unwrap();
        nouns.entry(noun).or_default().push(format!("`{action}`"));
    }
    let mut table = String::from("| object | actions |\n|---|---|\n");
    for (noun, words) in nouns {
        let _ = writeln!(table, "| {noun} | {} |", words.join(", "));
    }
    check("event-reference.md", "audit-acts", &table);
}

#[test]
fn the_documented_streams_send_these_events() {
    let sent: std::collections::BTreeSet<String> =
        sources(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/api"))
            .iter()
            .flat_map(|text| {
                let names = text.split(".event(\"").skip(1).filter_map(|rest| rest.split('"').next());
                names.map(str::to_owned).collect::<Vec<_>>()
            })
            .collect();
    let text = std::fs::read_to_string(docs("event-reference.md")).unwrap();
    let (_, below) = text.split_once("<!-- checked: stream-events -->").unwrap();
    let rows = below.trim_start().lines().take_while(|line| line.starts_with('|')).skip(2);
    let documented: std::collections::BTreeSet<String> =
        rows.filter_map(|row| row.split('`').nth(1)).map(str::to_owned).collect();
    assert_eq!(documented, sent);
}

/// The text of every Rust file below a folder.
fn sources(folder: &std::path::Path) -> Vec<String> {
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            texts.extend(sources(&path));
        } else {
            texts.push(std::fs::read_to_string(path).unwrap());
        }
    }
    texts
}

fn docs(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file)
}

/// Text in a cell of a table: no bars, one line.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Compares the table below a mark with the expected one, or writes it there.
fn check(file: &str, name: &str, expected: &str) {
    let path = docs(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let mark = format!("<!-- checked: {name} -->\n\n");
    let start = text.find(&mark).unwrap_or_else(|| panic!("docs/{file} has no table {name}")) + mark.len();
    let end = text[start..].find("\n\n").map_or(text.len(), |end| start + end + 1);
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        // Other tests write other tables of the same file.
        let text = format!("{}{expected}{}", &text[..start], &text[end..]);
        std::fs::write(&path, text).unwrap();
        return;
    }
    assert_eq!(&text[start..end], expected, "docs/{file} is out of date: WINDLASS_BLESS=1 writes it again");
}

/// The login of a server that migrates could change the schema.
#[test]
fn the_units_start_processes_that_do_not_migrate() {
    for unit in [
        include_str!("../../../../../deploy/windlass-serve.service"),
        include_str!("../../../../../deploy/windlass-worker.service"),
    ] {
        let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/")).unwrap();
        assert!(tree().try_get_matches_from(start.split(' ')).is_ok(), "{start}");
        assert!(!start.contains("migrate"), "{start}");
    }
}
