//! `windlass migrate`.

use clap::Args;
use serde_json::json;

use super::Global;
use super::exit::{Exit, Failure};
use super::print;

/// Brings the database's schema to this release.
///
/// Safe to run by ten machines at once and as often as you like; workers of the previous release go on meanwhile.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass migrate --database-url postgresql://app@db/app\n  \
    windlass migrate --print-sql | psql   # where a person must see it first")]
pub struct Migrate {
    /// Prints what an empty database needs and touches none
    #[arg(long)]
    print_sql: bool,
}

impl Migrate {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        if self.print_sql {
            print::line(windlass::print_sql())?;
            return Ok(Exit::Success);
        }
        let sourced = global.load(&[])?;
        let migrated = windlass::migrate(&global.database(&sourced.configuration)?).await?;
        if global.json {
            print::json(&json!({
                "applied": migrated.applied,
                "functions_installed": migrated.functions_installed,
                "is_newer": migrated.is_newer,
                "version": windlass::NEWEST_SCHEMA,
            }))?;
        } else if migrated.is_newer {
            print::line(
                "nothing was changed: a newer release of windlass has installed this schema; this one can go on using it",
            )?;
        } else if migrated.applied.is_empty() && !migrated.functions_installed {
            print::line(format!("nothing to do: the schema is at version {}", windlass::NEWEST_SCHEMA))?;
        } else {
            let applied: Vec<String> = migrated.applied.iter().map(ToString::to_string).collect();
            let list = if applied.is_empty() { "none".to_owned() } else { applied.join(", ") };
            let functions =
                if migrated.functions_installed { "functions installed" } else { "functions as they were" };
            print::line(format!(
                "migrations applied: {list}; {functions}; the schema is at version {}",
                windlass::NEWEST_SCHEMA
            ))?;
        }
        Ok(Exit::Success)
    }
}
