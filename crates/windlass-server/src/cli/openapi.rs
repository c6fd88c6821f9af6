//! `windlass openapi`.

use clap::Args;

use super::exit::{Exit, Failure};
use super::print;

/// Print the OpenAPI description of the HTTP API.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  windlass openapi > openapi.json")]
pub(crate) struct Openapi {}

impl Openapi {
    #[expect(clippy::unused_self, reason = "every command is run the same way")]
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        print::json(&serde_json::to_value(crate::http::document()).map_err(std::io::Error::from)?)?;
        Ok(Exit::Success)
    }
}
