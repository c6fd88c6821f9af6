//! Starts an embedded Postgres on the given directory, prints its URL and holds its lease until standard input ends. Given a URL
//! instead, it only tries to connect.

use std::env;
use std::error::Error;
use std::io::{self, Read, Write};

use windlass::setup::embedded::{Options, Postgres};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let data_dir = env::args_os().nth(1).ok_or("give the data directory as the only argument")?;
    if let Some(url) = data_dir.to_str().filter(|text| text.starts_with("postgresql://")) {
        drop(tokio_postgres::connect(url, tokio_postgres::NoTls).await?);
        return Ok(());
    }
    let postgres = Postgres::start(&Options::new(data_dir)?).await?;
    writeln!(io::stdout(), "{}", postgres.url())?;
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    postgres.stop().await?;
    Ok(())
}
