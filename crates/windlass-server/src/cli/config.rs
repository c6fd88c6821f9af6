//! `windlass config`: the example file, and a check of yours.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::Global;
use super::exit::{Exit, Failure};
use super::print;
use crate::config::{Place, Sources};

#[derive(Debug, Args)]
pub struct Config {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Prints a commented configuration file with every setting and its default
    #[command(after_help = "Example:\n  windlass config example > windlass.toml")]
    Example,
    /// Checks the configuration that this environment and --config make, and names every mistake with its place
    #[command(
        after_help = "Examples:\n  windlass config check --config windlass.toml\n  windlass config check --json"
    )]
    Check,
}

impl Config {
    pub(super) fn run(&self, global: &Global) -> Result<Exit, Failure> {
        match self.verb {
            Verb::Example => print::line(crate::config::example().trim_end())?,
            Verb::Check => return check(global),
        }
        Ok(Exit::Success)
    }
}

fn check(global: &Global) -> Result<Exit, Failure> {
    let flags =
        global.database_url.iter().map(|url| ("database.url", "--database-url", url.clone())).collect();
    let sources = Sources { flags, variables: Sources::environment(), file: global.config.as_deref() };
    match crate::config::load(&sources) {
        Ok(sourced) => {
            let mut places: Vec<(&String, String)> =
                sourced.places.iter().map(|(key, place)| (key, spell(place))).collect();
            places.sort();
            if global.json {
                let set: Map<String, Value> =
                    places.into_iter().map(|(key, place)| (key.clone(), json!(place))).collect();
                print::json(&json!({"ok": true, "set": set}))?;
            } else {
                for (key, place) in &places {
                    print::line(format!("{key} from {place}"))?;
                }
                print::line(format!(
                    "no mistakes; {} settings given, the others have their defaults",
                    places.len()
                ))?;
            }
            Ok(Exit::Success)
        }
        Err(mistakes) if global.json => {
            let mistakes: Vec<Value> = mistakes
                .iter()
                .map(|mistake| json!({"place": spell(&mistake.place), "key": mistake.key, "message": mistake.message}))
                .collect();
            print::json(&json!({"ok": false, "mistakes": mistakes}))?;
            Ok(Exit::Usage)
        }
        Err(mistakes) => Err(super::mistaken(&mistakes)),
    }
}

fn spell(place: &Place) -> String {
    match place {
        Place::File { path, line } => format!("{}:{line}", path.display()),
        Place::Variable(name) => name.clone(),
        Place::Flag(flag) => (*flag).to_owned(),
        Place::Nowhere => String::new(),
    }
}
