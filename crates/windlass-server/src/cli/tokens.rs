//! `windlass tokens`.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::Global;
use super::client::segment;
use super::exit::{Exit, Failure};
use super::print::{self, Show, at, text};

#[derive(Debug, Args)]
pub struct Tokens {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists tokens; the secrets are not stored and cannot be shown again
    #[command(alias = "ls")]
    List,
    /// Creates a token and prints it, this once
    #[command(after_help = "Examples:\n  windlass tokens create ci --tenant acme --role operator\n  \
        windlass tokens create reports --tenant acme --role viewer --scope jobs:read --expires-in-days 90")]
    Create {
        /// What it is for
        name: String,
        /// viewer, operator, tenant_admin, worker or super_admin
        #[arg(long, default_value = "operator")]
        role: String,
        /// Holds it to less than its role; may be given several times
        #[arg(long)]
        scope: Vec<String>,
        /// Ends after this many days
        #[arg(long, value_name = "DAYS")]
        expires_in_days: Option<u32>,
    },
    /// Makes a new secret and prints it; the old one works until the overlap is over
    #[command(after_help = "Example:\n  windlass tokens rotate 4f1c… --overlap-seconds 3600")]
    Rotate {
        /// The token's id
        id: String,
        /// How long the old secret goes on working
        #[arg(long, value_name = "SECONDS")]
        overlap_seconds: Option<u64>,
    },
    /// Ends a token; every server refuses it within five seconds
    Revoke {
        /// The token's id
        id: String,
    },
}

const PATH: &str = "/api/v1/admin/tokens";

impl Tokens {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let client = global.client().await?;
        match &self.verb {
            Verb::List => print::list(global.json, client.all(PATH, &[]).await?, show),
            Verb::Create { name, role, scope, expires_in_days } => {
                let mut body =
                    Map::from_iter([("name".to_owned(), json!(name)), ("role".to_owned(), json!(role))]);
                if !scope.is_empty() {
                    body.insert("scopes".to_owned(), json!(scope));
                }
                let expires = expires_in_days.and_then(|days| {
                    jiff::Timestamp::now()
                        .checked_add(jiff::SignedDuration::from_hours(i64::from(days) * 24))
                        .ok()
                });
                body.extend(expires.map(|at| ("expires_at".to_owned(), json!(at.to_string()))));
                reveal(global, &client.post(PATH, Value::Object(body)).await?)
            }
            Verb::Rotate { id, overlap_seconds } => {
                let body =
                    overlap_seconds.map_or_else(|| json!({}), |seconds| json!({"overlap_seconds": seconds}));
                reveal(global, &client.post(&format!("{PATH}/{}/rotate", segment(id)), body).await?)
            }
            Verb::Revoke { id } => {
                let answer = client.delete(&format!("{PATH}/{}", segment(id))).await?;
                print::answer(global.json, &answer, |_| print::line(format!("{id} is revoked")))
            }
        }
    }
}

/// The token alone on standard output, so that it can go straight into a file.
fn reveal(global: &Global, answer: &Value) -> Result<Exit, Failure> {
    print::answer(global.json, answer, |answer| {
        print::note("keep it now: it is not stored and cannot be shown again");
        print::line(text(at(answer, "token")))
    })
}

fn show(tokens: &[Value]) -> Result<(), Failure> {
    print::table(
        tokens,
        &[
            ("ID", Show::Plain("id")),
            ("NAME", Show::Plain("name")),
            ("ROLE", Show::Plain("role")),
            ("SCOPES", Show::Plain("scopes")),
            ("TENANT", Show::Plain("tenant_id")),
            ("CREATED", Show::Age("created_at")),
            ("EXPIRES", Show::Age("expires_at")),
            ("REVOKED", Show::Age("revoked_at")),
        ],
        "no tokens; `windlass tokens create NAME --role ROLE` makes one",
    )
}
