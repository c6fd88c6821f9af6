//! Plain connections of the benchmark, for its own queries.

use tokio_postgres::{Client, NoTls};

use crate::Result;

/// The task that drives the socket ends when the client is dropped.
pub(crate) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The same URL with another database.
pub(crate) fn with_database(url: &str, name: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        // A key=value string: the last dbname counts.
        return format!("{url} dbname={name}");
    };
    let (place, query) = match rest.split_once('?') {
        Some((place, query)) => (place, format!("?{query}")),
        None => (rest, String::new()),
    };
    let authority = place.split('/').next().unwrap_or_default();
    format!("{scheme}://{authority}/{name}{query}")
}

/// Jobs that have not ended.
pub(crate) async fn unfinished(client: &Client) -> Result<u64> {
    let row = client
        .query_one(
            "select (select coalesce(sum(cardinality(ids)), 0)::bigint from windlass.line)
                  + (select coalesce(sum(cardinality(ids) - bit_count(ended::bit(64))), 0)::bigint from windlass.live)
                  + (select count(*) from windlass.deferred) + (select count(*) from windlass.blocked)",
            &[],
        )
        .await?;
    Ok(row.get::<_, i64>(0).unsigned_abs())
}

/// Jobs that could be claimed now.
pub(crate) async fn queued(client: &Client) -> Result<u64> {
    let query = "select coalesce(sum(cardinality(ids)), 0)::bigint from windlass.line";
    let row = client.query_one(query, &[]).await?;
    Ok(row.get::<_, i64>(0).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::with_database;

    #[test]
    fn only_the_database_changes() {
        assert_eq!(with_database("postgresql://a:b@c:1/d?e=f/g", "x"), "postgresql://a:b@c:1/x?e=f/g");
        assert_eq!(with_database("postgres://c", "x"), "postgres://c/x");
        assert_eq!(with_database("postgresql://a@/d?host=%2Ftmp", "x"), "postgresql://a@/x?host=%2Ftmp");
        assert_eq!(with_database("host=c dbname=d", "x"), "host=c dbname=d dbname=x");
    }
}
