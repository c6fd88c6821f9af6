//! The messages of errors that depend on what they contain.

pub(super) fn payload_words(faults: &[(String, String)]) -> String {
    let (pointer, message) = faults.first().map_or(("", ""), |(pointer, message)| (pointer, message));
    let more = match faults.len() {
        0 | 1 => String::new(),
        2 => "; and 1 more error".to_owned(),
        all => format!("; and {} more errors", all - 1),
    };
    format!("payload{pointer}: {message}{more}")
}

pub(super) fn schema_words(found: i32, oldest: i32, newest: i32) -> String {
    if found == 0 {
        return "the database has no windlass schema".to_owned();
    }
    let supported =
        if oldest == newest { format!("version {newest}") } else { format!("versions {oldest} to {newest}") };
    format!("the database schema has version {found}; this release supports {supported}")
}

pub(super) fn contention_words(code: &str) -> &'static str {
    match code {
        "40P01" => "another transaction changed the same rows in another order (deadlock)",
        "55P03" => "another transaction did not release its lock on the same rows in time (lock timeout)",
        _ => "another transaction changed the same rows at the same time (serialization failure)",
    }
}

/// tokio-postgres prints only "db error"; people need the message of the server.
pub(super) fn describe(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{} ({})", db.message(), db.code().code()),
        None => std::error::Error::source(error)
            .map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}")),
    }
}
