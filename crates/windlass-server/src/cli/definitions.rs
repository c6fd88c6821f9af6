//! `windlass definitions`: job definitions, kept in a file next to the code and applied like a migration.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::Global;
use super::client::Client;
use super::exit::{Exit, Failure};
use super::print::{self, Show, at, text};

#[derive(Debug, Args)]
pub struct Definitions {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List definitions
    #[command(alias = "ls")]
    List,
    /// Create and update definitions to match a file; fields and definitions not in the file do not change
    #[command(after_help = FILE_HELP)]
    Apply {
        /// A TOML or JSON file
        file: PathBuf,
        /// Only show the changes
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

/// The change of one definition.
struct Step {
    key: String,
    wanted: Map<String, Value>,
    /// The id and version of the existing definition, and the differences: field, current value, new value.
    existing: Option<(String, String)>,
    differences: Vec<(String, Value, Value)>,
}

impl Definitions {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        match &self.verb {
            Verb::List => {
                let definitions = global.client().await?.all(PATH, &[]).await?;
                if global.json {
                    print::json(&Value::Array(definitions))?;
                } else {
                    show(&definitions)?;
                }
                Ok(Exit::Success)
            }
            Verb::Diff { file } => {
                let wanted = read(file)?;
                let steps = plan(&global.client().await?, wanted).await?;
                report(global, &steps)?;
                Ok(if steps.iter().all(Step::is_unchanged) { Exit::Success } else { Exit::Negative })
            }
            Verb::Apply { file, dry_run } => {
                let wanted = read(file)?;
                let client = global.client().await?;
                let steps = plan(&client, wanted).await?;
                if !dry_run {
                    for step in &steps {
                        step.apply(&client).await?;
                    }
                }
                report(global, &steps)?;
                Ok(Exit::Success)
            }
        }
    }
}

impl Step {
    fn is_unchanged(&self) -> bool {
        self.existing.is_some() && self.differences.is_empty()
    }

    async fn apply(&self, client: &Client) -> Result<(), Failure> {
        let context =
            |failure: Failure| Failure { message: format!("{}: {}", self.key, failure.message), ..failure };
        match &self.existing {
            None => {
                client.post(PATH, Value::Object(self.wanted.clone())).await.map_err(context)?;
            }
            Some((id, version)) if !self.differences.is_empty() => {
                let changes: Map<String, Value> = self
                    .differences
                    .iter()
                    .map(|(field, _, wanted)| (field.clone(), wanted.clone()))
                    .collect();
                // Only the compared version is changed: a concurrent edit is a conflict.
                let path = format!("{PATH}/{id}");
                client.patch_if(&path, version, Value::Object(changes)).await.map_err(context)?;
            }
            Some(_) => {}
        }
        Ok(())
    }
}

async fn plan(client: &Client, wanted: Vec<Map<String, Value>>) -> Result<Vec<Step>, Failure> {
    let existing = client.all(PATH, &[]).await?;
    let step = |wanted: Map<String, Value>| {
        let key = wanted.get("key").map(text).unwrap_or_default();
        let same = existing.iter().find(|known| text(at(known, "key")) == key);
        let differences = same.map_or_else(Vec::new, |known| differences(known, &wanted));
        Step {
            key,
            existing: same.map(|known| (text(at(known, "id")), text(at(known, "version")))),
            differences,
            wanted,
        }
    };
    Ok(wanted.into_iter().map(step).collect())
}

/// The fields of the file whose current value differs.
fn differences(known: &Value, wanted: &Map<String, Value>) -> Vec<(String, Value, Value)> {
    let differs = |(field, value): (&String, &Value)| {
        let existing = at(known, field);
        (existing != value).then(|| (field.clone(), existing.clone(), value.clone()))
    };
    wanted.iter().filter_map(differs).collect()
}

fn read(path: &Path) -> Result<Vec<Map<String, Value>>, Failure> {
    let bad = |message: String| Failure::usage(format!("{}: {message}", path.display()));
    let file = std::fs::read_to_string(path).map_err(|error| bad(format!("cannot be read: {error}")))?;
    let document: Value = if path.extension().is_some_and(|extension| extension == "json") {
        serde_json::from_str(&file).map_err(|error| bad(error.to_string()))?
    } else {
        toml::from_str(&file).map_err(|error| bad(error.to_string()))?
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

fn report(global: &Global, steps: &[Step]) -> Result<(), Failure> {
    let action = |step: &Step| match (&step.existing, step.differences.is_empty()) {
        (None, _) => "create",
        (Some(_), true) => "same",
        (Some(_), false) => "update",
    };
    if global.json {
        let steps: Vec<Value> = steps
            .iter()
            .map(|step| {
                let changes: Map<String, Value> = step
                    .differences
                    .iter()
                    .map(|(field, existing, wanted)| (field.clone(), json!({"from": existing, "to": wanted})))
                    .collect();
                json!({"key": step.key, "action": action(step), "changes": changes})
            })
            .collect();
        return print::json(&Value::Array(steps));
    }
    for step in steps {
        print::line(format!("{:<7} {}", action(step), step.key))?;
        for (field, existing, wanted) in &step.differences {
            print::line(format!("        {field}: {existing} → {wanted}"))?;
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
