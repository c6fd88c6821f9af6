//! `windlass migrate`.

use clap::{Args, ValueEnum};
use serde_json::json;
use windlass::setup::{NEWEST_SCHEMA, PendingSetup};

use super::Global;
use super::exit::{Exit, Failure};
use super::print;

/// Install or upgrade the database schema, and repair it after a restore.
///
/// It can be run repeatedly and by several machines at the same time. Workers of the previous release keep running. It needs no privilege
/// if there is nothing to do. Otherwise the login needs CREATEROLE and CREATE on the database, or the role windlass_migrator.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass migrate --database-url postgresql://app@db/app\n  \
    windlass migrate --check                                 # exit code 1 if there is something to do\n  \
    windlass migrate --print-sql > windlass.sql              # for your own migration tool\n  \
    windlass migrate --print-sql --from 18 > upgrade.sql\n  \
    windlass migrate --print-sql roles --login app | psql    # as an administrator, if app may not create roles")]
pub(crate) struct Migrate {
    /// Report pending changes without applying them; exit code 1 if there are any
    #[arg(long, conflicts_with = "print_sql")]
    check: bool,
    /// Print the SQL for an empty database and change nothing; `roles` prints only the part that needs an administrator
    #[arg(long, value_name = "PART", num_args = 0..=1, default_missing_value = "all")]
    print_sql: Option<PrintedPart>,
    /// With --print-sql: the current version of the schema, to print only later migrations
    #[arg(long, value_name = "VERSION", requires = "print_sql")]
    from: Option<i32>,
    /// With `--print-sql roles`: a login that may migrate; by default the owner of the database in which the SQL is run
    #[arg(long, value_name = "NAME", requires = "print_sql")]
    login: Vec<String>,
}

/// A part of the SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PrintedPart {
    /// Everything
    All,
    /// The roles and their memberships
    Roles,
}

impl Migrate {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        if let Some(part) = self.print_sql {
            return self.print(part);
        }
        let sourced = global.load(&[])?;
        let settings = global.database(&sourced.configuration)?;
        if self.check {
            return check(global, &windlass::setup::pending(&settings).await?);
        }
        let migrated = windlass::migrate(&settings).await?;
        if global.json {
            print::json(&json!({
                "applied": migrated.applied,
                "functions_installed": migrated.functions_installed,
                "repaired": migrated.repaired,
                "is_newer": migrated.is_newer,
                "version": NEWEST_SCHEMA,
            }))?;
        } else if migrated.is_newer {
            print::line(
                "no changes: the schema was installed by a newer release of windlass; this release can use it",
            )?;
        } else if migrated.applied.is_empty() && !migrated.functions_installed && migrated.repaired.is_empty()
        {
            print::line(format!("up to date: the schema is at version {NEWEST_SCHEMA}"))?;
        } else {
            for one in &migrated.repaired {
                print::line(format!("repaired: {one}"))?;
            }
            let functions =
                if migrated.functions_installed { "functions installed" } else { "functions unchanged" };
            print::line(format!(
                "migrations applied: {}; {functions}; the schema is at version {NEWEST_SCHEMA}",
                list(&migrated.applied)
            ))?;
        }
        Ok(Exit::Success)
    }

    fn print(&self, part: PrintedPart) -> Result<Exit, Failure> {
        let sql = match (part, self.from) {
            (PrintedPart::Roles, None) => windlass::setup::print_roles_sql(&self.login),
            (PrintedPart::Roles, Some(_)) => {
                return Err(Failure::usage("--from does not apply to the roles"));
            }
            (PrintedPart::All, _) if !self.login.is_empty() => {
                return Err(Failure::usage("--login applies only to `--print-sql roles`"));
            }
            (PrintedPart::All, None) => windlass::setup::print_sql(),
            (PrintedPart::All, Some(version)) => windlass::setup::print_sql_from(version),
        };
        print::line(sql)?;
        Ok(Exit::Success)
    }
}

fn check(global: &Global, pending: &PendingSetup) -> Result<Exit, Failure> {
    let exit = if pending.is_nothing() { Exit::Success } else { Exit::Negative };
    if global.json {
        print::json(&json!({
            "migrations": pending.migrations,
            "functions": pending.functions,
            "repairs": pending.repairs,
            "is_newer": pending.is_newer,
            "version": NEWEST_SCHEMA,
        }))?;
        return Ok(exit);
    }
    if pending.is_nothing() {
        print::line(format!("nothing to do: the schema is at version {NEWEST_SCHEMA}"))?;
        return Ok(exit);
    }
    if !pending.migrations.is_empty() {
        print::line(format!("migrations to apply: {}", list(&pending.migrations)))?;
    }
    if pending.functions {
        print::line("functions to install")?;
    }
    for one in &pending.repairs {
        print::line(format!("to repair: {one}"))?;
    }
    Ok(exit)
}

fn list(versions: &[i32]) -> String {
    let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
    if versions.is_empty() { "none".to_owned() } else { versions.join(", ") }
}
