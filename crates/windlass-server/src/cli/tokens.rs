//! `windlass tokens`.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::Global;
use super::client::segment;
use super::exit::{Exit, Failure};
use super::number::number;
use super::print::{self, Show, at, text};

#[derive(Debug, Args)]
pub(crate) struct TokensCommand {
    #[command(subcommand)]
    verb: TokensVerb,
}

#[derive(Debug, Subcommand)]
enum TokensVerb {
    /// List tokens; their secrets are not stored and cannot be shown
    #[command(alias = "ls")]
    List,
    /// Create a token and print it; it is shown only once
    #[command(after_help = "Examples:\n  windlass tokens create ci --tenant acme --role operator\n  \
        windlass tokens create reports --tenant acme --role viewer --scope jobs:read --expires-in-days 90")]
    Create {
        /// The name, such as the purpose of the token
        name: String,
        /// The role: viewer, operator, tenant_admin, worker or super_admin
        #[arg(long, default_value = "operator")]
        role: String,
        /// Restrict the token to this scope; can be repeated
        #[arg(long)]
        scope: Vec<String>,
        /// The token expires after this many days, from 1 to 36500
        #[arg(long, value_name = "DAYS", value_parser = number::<1, 36_500>)]
        expires_in_days: Option<u64>,
    },
    /// Create a new secret and print it; the old one stays valid for the overlap
    #[command(after_help = "Example:\n  windlass tokens rotate 4f1c… --overlap-seconds 3600")]
    Rotate {
        /// The id of the token
        id: String,
        /// How long the old secret stays valid
        #[arg(long, value_name = "SECONDS", value_parser = number::<0, { u64::MAX }>)]
        overlap_seconds: Option<u64>,
    },
    /// Revoke a token; every server rejects it within five seconds
    Revoke {
        /// The id of the token
        id: String,
    },
}

const PATH: &str = "/api/v1/admin/tokens";

impl TokensCommand {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let client = global.client().await?;
        match &self.verb {
            TokensVerb::List => {
                let mut tokens = client.all(PATH, &[]).await?;
                if !global.json {
                    client.name_tenants(&mut tokens).await;
                }
                print::list(global.json, tokens, show)
            }
            TokensVerb::Create { role, .. } if role == "super_admin" && global.tenant.is_some() => {
                Err(Failure::usage(
                    "a super_admin token gives access to all tenants, not to that of --tenant",
                )
                .advise("omit --tenant and WINDLASS_TENANT, or choose another role, such as tenant_admin"))
            }
            TokensVerb::Create { name, role, scope, expires_in_days } => {
                let mut body =
                    Map::from_iter([("name".to_owned(), json!(name)), ("role".to_owned(), json!(role))]);
                if !scope.is_empty() {
                    body.insert("scopes".to_owned(), json!(scope));
                }
                let expires = expires_in_days.and_then(|days| {
                    jiff::Timestamp::now()
                        .checked_add(jiff::SignedDuration::from_hours(
                            i64::try_from(days).unwrap_or(i64::MAX / 24) * 24,
                        ))
                        .ok()
                });
                body.extend(expires.map(|at| ("expires_at".to_owned(), json!(at.to_string()))));
                reveal(global, &client.post(PATH, Value::Object(body)).await?)
            }
            TokensVerb::Rotate { id, overlap_seconds } => {
                let body =
                    overlap_seconds.map_or_else(|| json!({}), |seconds| json!({"overlap_seconds": seconds}));
                let rotated = client.post(&format!("{PATH}/{}/rotate", segment(id)), body).await;
                reveal(global, &rotated.map_err(|failure| missing(failure, id))?)
            }
            TokensVerb::Revoke { id } => {
                let response = client.delete(&format!("{PATH}/{}", segment(id))).await;
                let response = response.map_err(|failure| missing(failure, id))?;
                print::response(global.json, &response, |_| print::line(format!("{id} revoked")))
            }
        }
    }
}

fn missing(failure: Failure, id: &str) -> Failure {
    let is_missing = failure.exit == Exit::Missing;
    let failure = failure.about(&format!("token {id}"));
    if is_missing { failure.advise("`windlass tokens list` lists the tokens") } else { failure }
}

/// Only the token on standard output, so that it can be redirected to a file.
fn reveal(global: &Global, response: &Value) -> Result<Exit, Failure> {
    print::response(global.json, response, |response| {
        print::note("save the token now: it is not stored and cannot be shown again");
        print::line(text(at(response, "token")))
    })
}

fn show(tokens: &[Value]) -> Result<(), Failure> {
    print::table(
        tokens,
        &[
            ("ID", Show::Plain("id")),
            ("NAME", Show::Cut("name", 60)),
            ("ROLE", Show::Plain("role")),
            ("SCOPES", Show::Cut("scopes", 200)),
            ("TENANT", Show::Plain("tenant")),
            ("CREATED", Show::Age("created_at")),
            ("EXPIRES", Show::Age("expires_at")),
            ("REVOKED", Show::Age("revoked_at")),
        ],
        "no tokens; `windlass tokens create NAME --role ROLE` creates one",
    )
}
