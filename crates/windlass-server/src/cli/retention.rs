//! `windlass retention`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Global;
use super::client::with_query;
use super::exit::{Exit, Failure};
use super::print::{self, Show, at, text};

#[derive(Debug, Args)]
pub(crate) struct RetentionCommand {
    #[command(subcommand)]
    verb: RetentionVerb,
}

#[derive(Debug, Subcommand)]
enum RetentionVerb {
    /// List the retention rules with the progress of deletion, and jobs whose artifacts are still being deleted
    #[command(alias = "ls")]
    List,
    /// Set a retention rule of the tenant
    #[command(
        after_help = "Examples:\n  windlass retention set succeeded 7d --definition sync-dropbox --tenant acme\n  \
        windlass retention set dead_letter forever --tenant acme\n  windlass retention set event 90d --tenant acme"
    )]
    Set {
        /// succeeded, failed, dead_letter, canceled or event
        status: String,
        /// How long to keep: 90s, 15m, 12h, 30d, or forever
        keep: String,
        /// The definition [default: all]
        #[arg(long, value_name = "KEY")]
        definition: Option<String>,
    },
    /// Remove a retention rule of the tenant; the rule of the definition applies again
    Clear {
        /// succeeded, failed, dead_letter, canceled or event
        status: String,
        /// The definition [default: the rule for all]
        #[arg(long, value_name = "KEY")]
        definition: Option<String>,
    },
}

const PATH: &str = "/api/v1/retention";

impl RetentionCommand {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        match &self.verb {
            RetentionVerb::List => {
                let kept = global.client().await?.get(PATH, &[]).await?;
                if global.json { print::json(&kept)? } else { show(&kept)? }
            }
            RetentionVerb::Set { status, keep, definition } => {
                let keep = seconds(keep)?;
                let body = json!({"definition_key": definition, "status": status, "keep_seconds": keep});
                let rule = global.client().await?.post(&format!("{PATH}/rules"), body).await?;
                if global.json {
                    print::json(&rule)?;
                } else {
                    print::line(format!(
                        "{} of {}: kept {}",
                        jobs(status),
                        definitions(definition.as_deref()),
                        kept(&rule)
                    ))?;
                }
            }
            RetentionVerb::Clear { status, definition } => {
                let mut query = vec![("status", status.clone())];
                query.extend(definition.clone().map(|key| ("definition_key", key)));
                let path = with_query(&format!("{PATH}/rules"), &query);
                let response = global.client().await?.delete(&path).await.map_err(|failure| {
                    let of = definitions(definition.as_deref());
                    failure.about(&format!("retention rule for {} of {of}", jobs(status)))
                })?;
                if global.json {
                    print::json(&response)?;
                } else {
                    print::line(format!(
                        "{} of {}: rule removed",
                        jobs(status),
                        definitions(definition.as_deref())
                    ))?;
                }
            }
        }
        Ok(Exit::Success)
    }
}

/// What a rule is about.
fn jobs(status: &str) -> String {
    if status == "event" { "events".to_owned() } else { format!("{status} jobs") }
}

fn definitions(key: Option<&str>) -> String {
    key.filter(|key| *key != "*")
        .map_or_else(|| "all definitions".to_owned(), |key| format!("definition {key}"))
}

/// `None` means forever.
fn seconds(text: &str) -> Result<Option<u64>, Failure> {
    if matches!(text, "forever" | "ever") {
        return Ok(None);
    }
    let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];
    let read = units
        .iter()
        .find_map(|(unit, seconds)| text.strip_suffix(*unit)?.parse::<u64>().ok()?.checked_mul(*seconds));
    read.map(Some).ok_or_else(|| {
        Failure::usage(format!("KEEP: {text:?} is not a duration"))
            .advise("use 90s, 15m, 12h, 30d or forever")
    })
}

fn definition(rule: &Value) -> String {
    let key = text(at(rule, "definition_key"));
    if key == "*" { "all".to_owned() } else { key }
}

fn behind(rule: &Value) -> String {
    at(rule, "behind_seconds").as_f64().map(|seconds| print::span(seconds as i64)).unwrap_or_default()
}

/// The duration of a rule, in the largest unit that divides it.
fn kept(rule: &Value) -> String {
    let Some(seconds) = at(rule, "keep_seconds").as_u64() else { return "forever".to_owned() };
    let units = [(86_400, 'd'), (3600, 'h'), (60, 'm')];
    let whole = units.iter().find(|(unit, _)| seconds > 0 && seconds % unit == 0);
    whole.map_or_else(|| format!("{seconds}s"), |(unit, name)| format!("{}{name}", seconds / unit))
}

fn due(rule: &Value) -> String {
    let more = if at(rule, "is_due_partial") == true { "+" } else { "" };
    at(rule, "due").as_i64().map(|due| format!("{due}{more}")).unwrap_or_default()
}

fn held_back(rule: &Value) -> String {
    let reasons = at(rule, "held_back").as_array().cloned().unwrap_or_default();
    reasons.iter().map(text).collect::<Vec<_>>().join("; ")
}

fn show(retention: &Value) -> Result<(), Failure> {
    let list = |name: &str| at(retention, name).as_array().cloned().unwrap_or_default();
    let forever = list("rules").into_iter().filter(|rule| at(rule, "keep_seconds").is_null());
    let own = forever.map(|mut rule| {
        rule["is_own"] = json!(true);
        rule
    });
    let measured = list("progress").into_iter().map(|mut rule| {
        rule["is_own"] = json!(!at(&rule, "tenant_id").is_null());
        rule
    });
    print::table(
        &measured.chain(own).collect::<Vec<_>>(),
        &[
            ("DEFINITION", Show::With(definition)),
            ("STATUS", Show::Plain("status")),
            ("KEPT", Show::With(kept)),
            (
                "RULE",
                Show::With(
                    |rule| if at(rule, "is_own") == true { "tenant".into() } else { "definition".into() },
                ),
            ),
            ("CHECKED", Show::Age("checked_at")),
            ("DELETED UNTIL", Show::Age("reached")),
            ("BEHIND", Show::With(behind)),
            ("JOBS DELETED", Show::Plain("purged")),
            ("JOBS DUE", Show::With(due)),
            ("HELD BACK", Show::With(held_back)),
        ],
        "no rules: finished jobs are kept forever, events for 30 days",
    )?;
    let waits = list("waits");
    if waits.is_empty() {
        return Ok(());
    }
    print::line("")?;
    print::table(
        &waits,
        &[
            ("EXPIRED JOB", Show::Plain("job_id")),
            ("WAITS FOR JOB", Show::Plain("cleanup_job_id")),
            ("STATUS", Show::Plain("cleanup_status")),
            ("SINCE", Show::Age("since")),
        ],
        "",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{kept, seconds};

    #[test]
    fn durations_are_parsed_and_printed_the_same() {
        for (text, expected) in [
            ("90s", Some(90)),
            ("15m", Some(900)),
            ("12h", Some(43_200)),
            ("30d", Some(2_592_000)),
            ("forever", None),
        ] {
            assert_eq!(seconds(text).ok(), Some(expected), "{text}");
        }
        assert_eq!(kept(&json!({"keep_seconds": 2_592_000})), "30d");
        assert_eq!(kept(&json!({"keep_seconds": 90})), "90s");
        assert_eq!(kept(&json!({"keep_seconds": 0})), "0s");
        assert_eq!(kept(&json!({"keep_seconds": null})), "forever");
        for wrong in ["", "7", "d", "-1d", "7w", "99999999999999999999d"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
