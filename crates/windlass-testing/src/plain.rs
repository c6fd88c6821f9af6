//! A handler that always succeeds.

use windlass::{Context, Done, Failure, Handler};

/// Runs the jobs of the definition `plain`.
#[derive(Debug)]
pub struct Plain;

impl Handler for Plain {
    const KEY: &'static str = "plain";
    type Args = serde_json::Value;

    async fn run(&self, _: &Context, _: Self::Args) -> Result<Done, Failure> {
        Ok(Done::new())
    }
}
