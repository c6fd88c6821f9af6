//! Payload types and a handler that tests share.

use windlass::{Context, Done, Failure, Handler};

/// Declares a payload type that wraps another type, for the definition with this key: `payload!(Name(Inner) = "key")`.
#[macro_export]
macro_rules! payload {
    ($visibility:vis $name:ident($inner:ty) = $key:expr) => {
        #[derive(Debug, Clone, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(transparent)]
        $visibility struct $name(pub $inner);

        impl windlass::JobArgs for $name {
            const KEY: &'static str = $key;
        }
    };
}

payload!(pub AnyJson(serde_json::Value) = "plain");

/// Runs the jobs of the definition `plain`, and always succeeds.
#[derive(Debug)]
pub struct Plain;

impl Handler for Plain {
    type Args = AnyJson;

    async fn run(&self, _: &Context, _: AnyJson) -> Result<Done, Failure> {
        Ok(Done::new())
    }
}
