//! `windlass definitions`: job definitions, kept in a file next to the code and applied like a migration.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::Global;
use super::client::{Client, list_of};
use super::exit::{Exit, Failure};
use super::print::{self, Show, at, text};
use crate::parser_messages::{json_fault, plain};
use crate::strict_json::StrictJson;

#[derive(Debug, Args)]
pub(crate) struct DefinitionsCommand {
    #[command(subcommand)]
    verb: DefinitionsVerb,
}

#[derive(Debug, Subcommand)]
enum DefinitionsVerb {
    /// List definitions
    #[command(alias = "ls")]
    List,
    /// Create and update definitions to match a file, all or none; fields and definitions not in the file do not change
    #[command(after_help = FILE_HELP)]
    Apply {
        /// A TOML or JSON file
        file: PathBuf,
        /// Only check the file and show the changes
        #[arg(long)]
        dry_run: bool,
    },
    /// Compare a file with the current definitions; exit code 1 if they differ
    #[command(after_help = FILE_HELP)]
    Diff {
        /// A TOML or JSON file
        file: PathBuf,
    },
}

const FILE_HELP: &str = "The file, in TOML:\n  [[definitions]]\n  key = \"sync-dropbox\"\n  description = \"Sync provider updates\"\n  \
    timeout_seconds = 3600\n  max_attempts = 3\n  [definitions.arg_schema]\n  type = \"object\"\n  required = [\"provider_id\"]\n\n\
    or in JSON: {\"definitions\": [{\"key\": \"sync-dropbox\", …}]}, or the list alone";

const PATH: &str = "/api/v1/admin/jobs/definitions";

impl DefinitionsCommand {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        match &self.verb {
            DefinitionsVerb::List => {
                let definitions = global.client().await?.all(PATH, &[]).await?;
                if global.json {
                    print::json(&Value::Array(definitions))?;
                } else {
                    show(&definitions)?;
                }
                Ok(Exit::Success)
            }
            DefinitionsVerb::Diff { file } => {
                let wanted = read(file)?;
                let steps = apply(&global.client().await?, wanted, true).await?;
                report(global, &steps)?;
                let is_same = |step: &Value| at(step, "action") == "same";
                Ok(if steps.iter().all(is_same) { Exit::Success } else { Exit::Negative })
            }
            DefinitionsVerb::Apply { file, dry_run } => {
                let wanted = read(file)?;
                let steps = apply(&global.client().await?, wanted, *dry_run).await?;
                report(global, &steps)?;
                Ok(Exit::Success)
            }
        }
    }
}

/// Returns what was done with each definition: its key, the action, and the changed fields.
async fn apply(
    client: &Client,
    wanted: Vec<Map<String, Value>>,
    dry_run: bool,
) -> Result<Vec<Value>, Failure> {
    let body = json!({"definitions": wanted, "dry_run": dry_run});
    Ok(list_of(&client.post(&format!("{PATH}/apply"), body).await?))
}

fn read(path: &Path) -> Result<Vec<Map<String, Value>>, Failure> {
    let bad = |message: String| Failure::usage(format!("{}: {message}", path.display()));
    let file = std::fs::read_to_string(path).map_err(|error| bad(format!("cannot be read: {error}")))?;
    let document: Value = if path.extension().is_some_and(|extension| extension == "json") {
        let StrictJson(document) = serde_json::from_str(&file)
            .map_err(|error| bad(format!("is not valid JSON: {}", json_fault(&error))))?;
        document
    } else {
        toml::from_str(&file).map_err(|error| {
            let line = error.span().map_or(1, |span| file[..span.start].matches('\n').count() + 1);
            bad(format!("line {line}: {}", plain(error.message())))
        })?
    };
    let listed = document.as_array().or_else(|| document.get("definitions")?.as_array()).cloned();
    let listed = listed.ok_or_else(|| {
        bad("must have a list `definitions`".to_owned()).advise("see `windlass definitions apply --help`")
    })?;
    let mut all: Vec<Map<String, Value>> = Vec::new();
    for (number, definition) in listed.into_iter().enumerate() {
        let Value::Object(fields) = definition else {
            return Err(bad(format!("definition {} must be an object", number + 1)));
        };
        let Some(key) = fields.get("key").and_then(Value::as_str) else {
            return Err(bad(format!("definition {} has no `key`", number + 1)));
        };
        if all.iter().any(|other| other.get("key").and_then(Value::as_str) == Some(key)) {
            return Err(bad(format!("`{key}` is defined twice")));
        }
        all.push(fields);
    }
    Ok(all)
}

fn report(global: &Global, steps: &[Value]) -> Result<(), Failure> {
    if global.json {
        return print::json(&Value::Array(steps.to_vec()));
    }
    for step in steps {
        print::line(format!("{:<7} {}", text(at(step, "action")), text(at(step, "key"))))?;
        for (field, change) in at(step, "changes").as_object().into_iter().flatten() {
            print::line(format!("        {field}: {} → {}", at(change, "from"), at(change, "to")))?;
        }
    }
    Ok(())
}

fn show(definitions: &[Value]) -> Result<(), Failure> {
    print::table(
        definitions,
        &[
            ("KEY", Show::Plain("key")),
            ("QUEUE", Show::Plain("queue")),
            (
                "TIMEOUT",
                Show::With(|definition| {
                    at(definition, "timeout_seconds").as_i64().map(print::span).unwrap_or_default()
                }),
            ),
            ("ATTEMPTS", Show::Plain("max_attempts")),
            (
                "ACTIVE",
                Show::With(
                    |definition| {
                        if at(definition, "is_active") == false { "no".into() } else { "yes".into() }
                    },
                ),
            ),
            ("DESCRIPTION", Show::Cut("description", 60)),
        ],
        "no definitions; `windlass definitions apply FILE` creates them",
    )
}
