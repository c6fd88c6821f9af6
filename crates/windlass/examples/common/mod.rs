//! What the examples share: a migrated database.

use std::error::Error;

use windlass::setup::embedded::{Options, Postgres};
use windlass::{Queue, Settings};

/// Connects to `DATABASE_URL`, or to an embedded Postgres that stays running for the next example. Also returns the URL.
pub(crate) async fn connect() -> Result<(Queue, String), Box<dyn Error>> {
    let url = match std::env::var("DATABASE_URL") {
        Ok(url) => url,
        Err(_) => {
            let directory = std::env::temp_dir().join("windlass-examples/data");
            Postgres::start(&Options::new(directory)?).await?.url()
        }
    };
    let settings = Settings::new(&url)?;
    windlass::migrate(&settings).await?;
    Ok((Queue::connect(settings).await?, url))
}
