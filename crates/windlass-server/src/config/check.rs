//! What a value's own type cannot say: settings that need each other, addresses that must parse, files that must be there.

use std::collections::HashMap;
use std::path::Path;

use super::{Configuration, Mistake, Place};
use crate::hooks::Hooks;
use crate::server::Proxies;

pub(super) fn check(configuration: &Configuration, places: &HashMap<String, Place>) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let mut mistake = |key: &str, message: String| {
        let place = places.get(key).cloned().unwrap_or(Place::Nowhere);
        mistakes.push(Mistake { place, key: key.to_owned(), message });
    };

    let database = &configuration.database;
    for (key, url) in [("database.url", &database.url), ("database.direct_url", &database.direct_url)] {
        if let Some(Err(error)) = url.as_ref().map(|url| windlass::Settings::new(url.expose())) {
            mistake(key, error.to_string());
        }
    }
    if database.connections == 0 {
        mistake("database.connections", "must be at least 1".to_owned());
    }

    let http = &configuration.http;
    match (&http.tls_certificate, &http.tls_key) {
        (Some(_), None) => mistake("http.tls_certificate", "needs `http.tls_key` beside it".to_owned()),
        (None, Some(_)) => mistake("http.tls_key", "needs `http.tls_certificate` beside it".to_owned()),
        _ => {}
    }
    if let Some(Err(message)) = http.trusted_proxies.as_deref().map(str::parse::<Proxies>) {
        mistake("http.trusted_proxies", message);
    }
    let files = [
        ("http.tls_certificate", &http.tls_certificate),
        ("http.tls_key", &http.tls_key),
        ("worker.file", &configuration.worker.file),
    ];
    for (key, path) in files {
        if let Some(Err(message)) = path.as_deref().map(readable) {
            mistake(key, message);
        }
    }
    if let Some(Err(message)) = configuration.events.hooks.as_deref().map(Hooks::load) {
        mistake("events.hooks", message);
    }
    let addresses = [
        ("http.public_url", &http.public_url),
        ("auth.jwks_url", &configuration.auth.jwks_url),
        ("traces.endpoint", &configuration.traces.endpoint),
    ];
    for (key, address) in addresses {
        let is_url = |address: &String| {
            reqwest::Url::parse(address).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
        };
        if address.as_ref().is_some_and(|address| !is_url(address)) {
            mistake(key, "must be an http:// or https:// URL".to_owned());
        }
    }
    if configuration.traces.endpoint.is_some() && !cfg!(feature = "otel") {
        mistake("traces.endpoint", "this build has no traces: build it with the feature `otel`".to_owned());
    }

    let auth = &configuration.auth;
    if auth.jwt_secret.is_some() && auth.jwks_url.is_some() {
        mistake("auth.jwks_url", "a secret is set too; choose one of `jwt_secret` and `jwks_url`".to_owned());
    }
    if auth.jwt_secret.as_ref().is_some_and(|secret| secret.expose().len() < 32) {
        mistake("auth.jwt_secret", "must have at least 32 characters".to_owned());
    }
    if auth.jwt_secret.is_some() || auth.jwks_url.is_some() {
        for (key, value) in [("auth.jwt_issuer", &auth.jwt_issuer), ("auth.jwt_audience", &auth.jwt_audience)]
        {
            if value.is_none() {
                mistake(
                    key,
                    "must be set for tokens to be accepted: a token made for someone else is no token"
                        .to_owned(),
                );
            }
        }
    }
    let limits = &configuration.limits;
    if limits.body_bytes_at_once / 4 < limits.body_bytes {
        mistake("limits.body_bytes_at_once", "must be at least four times limits.body_bytes".to_owned());
    }
    for (key, is_nothing) in [
        ("limits.body_bytes", limits.body_bytes == 0),
        ("limits.requests_per_minute", limits.requests_per_minute == 0),
        ("limits.request_seconds", limits.request_seconds == 0),
        ("limits.header_seconds", limits.header_seconds == 0),
        ("limits.body_seconds", limits.body_seconds == 0),
        ("limits.idle_seconds", limits.idle_seconds == 0),
        ("limits.statement_seconds", limits.statement_seconds == 0),
        ("limits.connections", limits.connections == 0),
        ("limits.address_connections", limits.address_connections == 0),
        ("limits.tenant_requests", limits.tenant_requests == Some(0)),
        ("limits.tenant_streams", limits.tenant_streams == 0),
        ("worker.concurrency", configuration.worker.concurrency == 0),
    ] {
        if is_nothing {
            mistake(key, "must be at least 1".to_owned());
        }
    }
    mistakes
}

fn readable(path: &Path) -> Result<(), String> {
    std::fs::File::open(path)
        .map(|_| ())
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use crate::config::{Sources, load};

    fn mistakes(variables: &[(&str, &str)]) -> Vec<String> {
        let variables =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let loaded = load(&Sources { variables, ..Sources::default() });
        loaded.map_or_else(|all| all.iter().map(ToString::to_string).collect(), |_| Vec::new())
    }

    #[test]
    fn settings_that_need_each_other_are_missed_by_name() {
        assert_eq!(
            mistakes(&[("WINDLASS_TLS_KEY", "/dev/null")]),
            ["WINDLASS_TLS_KEY: http.tls_key: needs `http.tls_certificate` beside it"]
        );
        let found = mistakes(&[("WINDLASS_JWT_SECRET", "short")]);
        assert_eq!(found.len(), 3, "{found:?}");
    }

    #[test]
    fn one_body_fits_the_quarter_that_strangers_have() {
        let found = mistakes(&[("WINDLASS_BODY_BYTES_AT_ONCE", "4194304")]);
        assert!(found.len() == 1 && found[0].contains("four times limits.body_bytes"), "{found:?}");
    }

    #[test]
    fn a_mistake_in_a_secret_does_not_print_it() {
        for found in mistakes(&[
            ("DATABASE_URL", "postgresql://u:hunter2@/x?sslmode=sometimes"),
            ("WINDLASS_JWT_SECRET", "hunter2"),
        ]) {
            assert!(!found.contains("hunter2"), "{found}");
        }
    }
}
