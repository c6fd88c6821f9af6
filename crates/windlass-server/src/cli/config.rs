//! `windlass config`: prints an example file, and checks a configuration.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::Global;
use super::exit::{Exit, Failure};
use super::print;
use crate::config::{Location, Sources};

#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    verb: ConfigVerb,
}

#[derive(Debug, Subcommand)]
enum ConfigVerb {
    /// Print a commented configuration file with every setting and its default
    #[command(after_help = "Example:\n  windlass config example > windlass.toml")]
    Example,
    /// Check the configuration from --config and the environment; report every error with its location
    #[command(
        after_help = "Examples:\n  windlass config check --config windlass.toml\n  windlass config check --json"
    )]
    Check,
}

impl Config {
    pub(super) fn run(&self, global: &Global) -> Result<Exit, Failure> {
        match self.verb {
            ConfigVerb::Example => print::line(crate::config::example().trim_end())?,
            ConfigVerb::Check => return check(global),
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
            let mut locations: Vec<(&String, String)> =
                sourced.locations.iter().map(|(key, location)| (key, location_text(location))).collect();
            locations.sort();
            if global.json {
                let set: Map<String, Value> =
                    locations.into_iter().map(|(key, location)| (key.clone(), json!(location))).collect();
                print::json(&json!({"ok": true, "set": set}))?;
            } else {
                for (key, location) in &locations {
                    print::line(format!("{key} from {location}"))?;
                }
                print::line(match locations.len() {
                    0 => "valid; all settings use their defaults".to_owned(),
                    1 => "valid; 1 setting is set, the others use their defaults".to_owned(),
                    given => format!("valid; {given} settings are set, the others use their defaults"),
                })?;
            }
            Ok(Exit::Success)
        }
        Err(errors) if global.json => {
            let errors: Vec<Value> = errors
                .iter()
                .map(|error| json!({"place": location_text(&error.location), "key": error.key, "message": error.message}))
                .collect();
            print::json(&json!({"ok": false, "mistakes": errors}))?;
            Ok(Exit::Usage)
        }
        Err(errors) => Err(super::invalid_configuration(&errors)),
    }
}

fn location_text(location: &Location) -> String {
    match location {
        Location::File { path, line } => format!("{}:{line}", path.display()),
        Location::Variable(name) => name.clone(),
        Location::Flag(flag) => (*flag).to_owned(),
        Location::Nowhere => String::new(),
    }
}
