//! `windlass audit`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass::Queue;
use windlass::admin::AuditHead;

use super::Global;
use super::client::list_of;
use super::exit::{Exit, Failure};
use super::number::number;
use super::print::{self, Show, at, text};

#[derive(Debug, Args)]
pub(crate) struct Audit {
    #[command(subcommand)]
    verb: AuditVerb,
}

#[derive(Debug, Subcommand)]
enum AuditVerb {
    /// List recorded actions, newest first
    #[command(alias = "ls")]
    List {
        /// The maximum number of entries, from 1 to 1000
        #[arg(long, default_value_t = 50, value_parser = number::<1, 1000>)]
        limit: u64,
        /// Only this action, such as job.cancel
        #[arg(long)]
        action: Option<String>,
        /// Only by this caller, such as token:4f0c9be1a7d2e853
        #[arg(long)]
        actor: Option<String>,
        /// Only denied actions
        #[arg(long)]
        denied: bool,
    },
    /// Verify the hash chain in the database; exit code 1 if an entry was changed or removed
    #[command(
        after_help = "Example:\n  windlass audit verify --database-url postgresql://app@db/app --checkpoint checkpoint.txt"
    )]
    Verify {
        /// Output of an earlier `windlass audit head`, or a file with it: the chain must still contain it
        #[arg(long, value_name = "FILE_OR_TEXT")]
        checkpoint: Option<String>,
    },
    /// Print the end of each hash chain; store it outside the database as a checkpoint for `verify`
    #[command(
        after_help = "Example:\n  windlass audit head --database-url postgresql://app@db/app > checkpoint.txt"
    )]
    Head,
}

const PATH: &str = "/api/v1/admin/audit";

impl Audit {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        match &self.verb {
            AuditVerb::List { limit, action, actor, denied } => {
                let mut query = vec![("limit", limit.to_string())];
                query.extend(action.clone().map(|action| ("action", action)));
                query.extend(actor.clone().map(|actor| ("actor", actor)));
                query.extend(denied.then(|| ("outcome", "denied".to_owned())));
                let client = global.client().await?;
                let page = client.get(PATH, &query).await?;
                if global.json {
                    print::json(&page)?;
                } else {
                    let mut entries = list_of(&page);
                    client.name_tenants(&mut entries).await;
                    show(&entries)?;
                }
                Ok(Exit::Success)
            }
            AuditVerb::Verify { checkpoint } => verify(global, checkpoint.as_deref()).await,
            AuditVerb::Head => head(global).await,
        }
    }
}

/// On the database directly: a verification should not have to trust the server that wrote the entries.
async fn verify(global: &Global, checkpoint: Option<&str>) -> Result<Exit, Failure> {
    let checkpoint = checkpoint.map(read_checkpoint).transpose()?.unwrap_or_default();
    let configuration = global.load(&[])?.configuration;
    let queue = Queue::connect_as_operator(global.examined_database(&configuration)?).await?;
    let faults = queue.verify_audit(&checkpoint).await?;
    if global.json {
        print::json(&json!({"is_whole": faults.is_empty(), "faults": faults}))?;
    } else if faults.is_empty() {
        print::line("the hash chain is intact")?;
    } else {
        let rows: Vec<Value> = faults.iter().map(|fault| json!(fault)).collect();
        let columns = [
            ("TENANT", Show::Plain("tenant_id")),
            ("POSITION", Show::Plain("position")),
            ("ENTRY", Show::Plain("audit_id")),
            ("PROBLEM", Show::Plain("problem")),
        ];
        print::table(&rows, &columns, "")?;
    }
    Ok(if faults.is_empty() { Exit::Success } else { Exit::Negative })
}

/// The checkpoint text, or the name of a file that contains it.
fn read_checkpoint(given: &str) -> Result<Vec<AuditHead>, Failure> {
    if let Ok(heads) = AuditHead::parse_lines(given) {
        return Ok(heads);
    }
    let text = std::fs::read_to_string(given).map_err(|error| {
        Failure::new(
            Exit::Usage,
            format!("--checkpoint: {given} is neither a checkpoint nor a file: {error}"),
        )
        .advise("pass the output of `windlass audit head`, or the name of a file that contains it")
    })?;
    AuditHead::parse_lines(&text).map_err(|error| Failure::new(Exit::Usage, format!("--checkpoint: {error}")))
}

async fn head(global: &Global) -> Result<Exit, Failure> {
    let configuration = global.load(&[])?.configuration;
    let queue = Queue::connect_as_operator(global.examined_database(&configuration)?).await?;
    let heads = queue.audit_heads().await?;
    if global.json {
        print::json(&json!({"heads": heads}))?;
    } else {
        for head in &heads {
            print::line(head.to_line())?;
        }
    }
    Ok(Exit::Success)
}

/// In the words of the web UI.
fn outcome(entry: &Value) -> String {
    match at(entry, "outcome").as_str() {
        Some("done") => "allowed".to_owned(),
        _ => text(at(entry, "outcome")),
    }
}

fn show(entries: &[Value]) -> Result<(), Failure> {
    print::table(
        entries,
        &[
            ("TIME", Show::Age("at")),
            ("ACTOR", Show::Plain("actor")),
            ("ACTION", Show::Plain("action")),
            ("TARGET", Show::Cut("target", 60)),
            ("OUTCOME", Show::With(outcome)),
            ("TENANT", Show::Plain("tenant")),
        ],
        "no entries",
    )
}
