//! `windlass migrate`.

use clap::Args;
use serde_json::json;

use super::Global;
use super::exit::{Exit, Failure};
use super::print;

/// Install or upgrade the database schema.
///
/// It can be run repeatedly and by several machines at the same time. Workers of the previous release keep running.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass migrate --database-url postgresql://app@db/app\n  \
    windlass migrate --print-sql | psql -v ON_ERROR_STOP=1   # to review it first")]
pub struct Migrate {
    /// Print the SQL for an empty database and change nothing
    #[arg(long)]
    print_sql: bool,
}

impl Migrate {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        if self.print_sql {
            print::line(windlass::setup::print_sql())?;
            return Ok(Exit::Success);
        }
        let sourced = global.load(&[])?;
        let migrated = windlass::migrate(&global.database(&sourced.configuration)?).await?;
        if global.json {
            print::json(&json!({
                "applied": migrated.applied,
                "functions_installed": migrated.functions_installed,
                "is_newer": migrated.is_newer,
                "version": windlass::setup::NEWEST_SCHEMA,
            }))?;
        } else if migrated.is_newer {
            print::line(
                "no changes: the schema was installed by a newer release of windlass; this release can use it",
            )?;
        } else if migrated.applied.is_empty() && !migrated.functions_installed {
            print::line(format!("up to date: the schema is at version {}", windlass::setup::NEWEST_SCHEMA))?;
        } else {
            let applied: Vec<String> = migrated.applied.iter().map(ToString::to_string).collect();
            let list = if applied.is_empty() { "none".to_owned() } else { applied.join(", ") };
            let functions =
                if migrated.functions_installed { "functions installed" } else { "functions unchanged" };
            print::line(format!(
                "migrations applied: {list}; {functions}; the schema is at version {}",
                windlass::setup::NEWEST_SCHEMA
            ))?;
        }
        Ok(Exit::Success)
    }
}
