//! `windlass retention`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Global;
use super::client::with_query;
use super::exit::{Exit, Failure};
use super::print::{self, Show, at, text};

#[derive(Debug, Args)]
pub struct Retention {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists every rule with how far pruning has come, and jobs that wait for their artifact
    #[command(alias = "ls")]
    List,
    /// Sets a rule of the tenant's own
    #[command(
        after_help = "Examples:\n  windlass retention set succeeded 7d --definition sync-dropbox --tenant acme\n  \
        windlass retention set dead_letter forever --tenant acme\n  windlass retention set event 90d --tenant acme"
    )]
    Set {
        /// succeeded, failed, dead_letter, canceled or event
        status: String,
        /// How long: 90s, 15m, 12h, 30d, or forever
        keep: String,
        /// Of one definition; of all, if not given
        #[arg(long, value_name = "KEY")]
        definition: Option<String>,
    },
    /// Takes a rule of the tenant's own away; what the definitions say holds again
    Clear {
        /// succeeded, failed, dead_letter, canceled or event
        status: String,
        /// Of one definition; the rule for all, if not given
        #[arg(long, value_name = "KEY")]
        definition: Option<String>,
    },
}

const PATH: &str = "/api/v1/retention";

impl Retention {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        match &self.verb {
            Verb::List => {
                let kept = global.client().await?.get(PATH, &[]).await?;
                if global.json { print::json(&kept)? } else { show(&kept)? }
            }
            Verb::Set { status, keep, definition } => {
                let keep = seconds(keep)?;
                let body = json!({"definition_key": definition, "status": status, "keep_seconds": keep});
                let rule = global.client().await?.post(&format!("{PATH}/rules"), body).await?;
                if global.json {
                    print::json(&rule)?;
                } else {
                    print::line(format!(
                        "{} {status}: kept {}",
                        text(at(&rule, "definition_key")),
                        kept(&rule)
                    ))?;
                }
            }
            Verb::Clear { status, definition } => {
                let mut query = vec![("status", status.clone())];
                query.extend(definition.clone().map(|key| ("definition_key", key)));
                let answer =
                    global.client().await?.delete(&with_query(&format!("{PATH}/rules"), &query)).await?;
                if global.json {
                    print::json(&answer)?;
                } else {
                    print::line(format!(
                        "{} {status}: no rule of its own",
                        definition.as_deref().unwrap_or("*")
                    ))?;
                }
            }
        }
        Ok(Exit::Success)
    }
}

/// None is for ever.
fn seconds(words: &str) -> Result<Option<u64>, Failure> {
    if matches!(words, "forever" | "ever") {
        return Ok(None);
    }
    let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];
    let read = units
        .iter()
        .find_map(|(unit, seconds)| words.strip_suffix(*unit)?.parse::<u64>().ok()?.checked_mul(*seconds));
    read.map(Some).ok_or_else(|| {
        Failure::usage(format!("KEEP cannot be {words:?}")).advise("write 90s, 15m, 12h, 30d or forever")
    })
}

/// A rule's time in the largest unit that is whole.
fn kept(rule: &Value) -> String {
    let Some(seconds) = at(rule, "keep_seconds").as_u64() else { return "for ever".to_owned() };
    let units = [(86_400, 'd'), (3600, 'h'), (60, 'm')];
    let whole = units.iter().find(|(unit, _)| seconds > 0 && seconds % unit == 0);
    whole.map_or_else(|| format!("{seconds}s"), |(unit, name)| format!("{}{name}", seconds / unit))
}

fn show(retention: &Value) -> Result<(), Failure> {
    let list = |name: &str| at(retention, name).as_array().cloned().unwrap_or_default();
    let for_ever = list("rules").into_iter().filter(|rule| at(rule, "keep_seconds").is_null());
    let own = for_ever.map(|mut rule| {
        rule["is_own"] = json!(true);
        rule
    });
    let reckoned = list("progress").into_iter().map(|mut rule| {
        rule["is_own"] = json!(!at(&rule, "tenant_id").is_null());
        rule
    });
    print::table(
        &reckoned.chain(own).collect::<Vec<_>>(),
        &[
            ("DEFINITION", Show::Plain("definition_key")),
            ("STATUS", Show::Plain("status")),
            ("KEPT", Show::With(kept)),
            (
                "RULE OF",
                Show::With(
                    |rule| if at(rule, "is_own") == true { "tenant".into() } else { "definition".into() },
                ),
            ),
            ("LOOKED AT", Show::Age("looked_at")),
            ("REACHED", Show::Age("reached")),
            ("BEHIND S", Show::Plain("behind_seconds")),
            ("DELETED", Show::Plain("purged")),
        ],
        "no rules: what is finished is kept for ever, events for 30 days",
    )?;
    let waits = list("waits");
    if waits.is_empty() {
        return Ok(());
    }
    print::line("")?;
    print::table(
        &waits,
        &[
            ("JOB PAST ITS TIME", Show::Plain("job_id")),
            ("WAITS FOR", Show::Plain("cleanup_job_id")),
            ("WHICH IS", Show::Plain("cleanup_status")),
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
    fn times_are_read_and_written_in_the_same_words() {
        for (words, expected) in [
            ("90s", Some(90)),
            ("15m", Some(900)),
            ("12h", Some(43_200)),
            ("30d", Some(2_592_000)),
            ("forever", None),
        ] {
            assert_eq!(seconds(words).ok(), Some(expected), "{words}");
        }
        assert_eq!(kept(&json!({"keep_seconds": 2_592_000})), "30d");
        assert_eq!(kept(&json!({"keep_seconds": 90})), "90s");
        assert_eq!(kept(&json!({"keep_seconds": 0})), "0s");
        assert_eq!(kept(&json!({"keep_seconds": null})), "for ever");
        for wrong in ["", "7", "d", "-1d", "7w", "99999999999999999999d"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
