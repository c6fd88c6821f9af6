//! Checks beyond the type of a value: settings that depend on each other, addresses that must parse, files that must exist.

use std::collections::HashMap;
use std::path::Path;

use super::{ConfigError, Configuration, Location};
use crate::hooks::Hooks;
use crate::server::Proxies;

pub(super) fn check(
    configuration: &Configuration,
    locations: &HashMap<String, Location>,
) -> Vec<ConfigError> {
    let mut report = Report { locations, errors: Vec::new() };
    database(configuration, &mut report);
    http(configuration, &mut report);
    files_and_addresses(configuration, &mut report);
    auth(configuration, &mut report);
    limits(configuration, &mut report);
    report.errors
}

struct Report<'a> {
    locations: &'a HashMap<String, Location>,
    errors: Vec<ConfigError>,
}

impl Report<'_> {
    fn add(&mut self, key: &str, message: impl Into<String>) {
        let location = self.locations.get(key).cloned().unwrap_or(Location::Nowhere);
        self.errors.push(ConfigError { location, key: key.to_owned(), message: message.into() });
    }
}

fn database(configuration: &Configuration, report: &mut Report<'_>) {
    let database = &configuration.database;
    for (key, url) in [("database.url", &database.url), ("database.direct_url", &database.direct_url)] {
        if let Some(Err(error)) = url.as_ref().map(|url| windlass::Settings::new(url.expose())) {
            // A parser that reached the end of the text has nothing to say about it.
            let message = Some(error.to_string()).filter(|message| !message.contains("EOF"));
            let message = message.map(|message| format!(": {message}")).unwrap_or_default();
            report
                .add(key, format!("must be a URL such as postgresql://USER:PASSWORD@HOST/DATABASE{message}"));
        }
    }
    if database.connections == 0 {
        report.add("database.connections", "must be at least 1");
    }
}

fn http(configuration: &Configuration, report: &mut Report<'_>) {
    let http = &configuration.http;
    match (&http.tls_certificate, &http.tls_key) {
        (Some(_), None) => report.add("http.tls_certificate", "requires `http.tls_key`"),
        (None, Some(_)) => report.add("http.tls_key", "requires `http.tls_certificate`"),
        _ => {}
    }
    if let Some(Err(message)) = http.trusted_proxies.as_deref().map(str::parse::<Proxies>) {
        report.add("http.trusted_proxies", message);
    }
}

fn files_and_addresses(configuration: &Configuration, report: &mut Report<'_>) {
    let files = [
        ("http.tls_certificate", &configuration.http.tls_certificate),
        ("http.tls_key", &configuration.http.tls_key),
        ("worker.file", &configuration.worker.file),
    ];
    for (key, path) in files {
        if let Some(Err(message)) = path.as_deref().map(readable) {
            report.add(key, message);
        }
    }
    if let Some(Err(message)) = configuration.events.hooks.as_deref().map(Hooks::load) {
        report.add("events.hooks", message);
    }
    let addresses = [
        ("http.public_url", &configuration.http.public_url),
        ("auth.jwks_url", &configuration.auth.jwks_url),
        ("traces.endpoint", &configuration.traces.endpoint),
    ];
    for (key, address) in addresses {
        let is_url = |address: &String| {
            reqwest::Url::parse(address).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
        };
        if address.as_ref().is_some_and(|address| !is_url(address)) {
            report.add(key, "must be an http:// or https:// URL");
        }
    }
    if configuration.traces.endpoint.is_some() && !cfg!(feature = "otel") {
        report.add("traces.endpoint", "is not supported by this build: enable the feature `otel`");
    }
}

fn auth(configuration: &Configuration, report: &mut Report<'_>) {
    let auth = &configuration.auth;
    if auth.jwt_secret.is_some() && auth.jwks_url.is_some() {
        report.add("auth.jwks_url", "conflicts with `auth.jwt_secret`: set only one of them");
    }
    if auth.jwt_secret.as_ref().is_some_and(|secret| secret.expose().len() < 32) {
        report.add("auth.jwt_secret", "must have at least 32 characters");
    }
    if auth.jwt_secret.is_none() && auth.jwks_url.is_none() {
        return;
    }
    for (key, value) in [("auth.jwt_issuer", &auth.jwt_issuer), ("auth.jwt_audience", &auth.jwt_audience)] {
        if value.is_none() {
            let message = "is required for JWTs, so that tokens issued for other services are rejected";
            report.add(key, message);
        }
    }
}

fn limits(configuration: &Configuration, report: &mut Report<'_>) {
    let limits = &configuration.limits;
    if limits.body_bytes_at_once / 8 < limits.body_bytes {
        report.add("limits.body_bytes_at_once", "must be at least eight times limits.body_bytes");
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
            report.add(key, "must be at least 1");
        }
    }
}

fn readable(path: &Path) -> Result<(), String> {
    std::fs::File::open(path).map(|_| ()).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use crate::config::{Sources, load};

    fn errors(variables: &[(&str, &str)]) -> Vec<String> {
        let variables =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let loaded = load(&Sources { variables, ..Sources::default() });
        loaded.map_or_else(|all| all.iter().map(ToString::to_string).collect(), |_| Vec::new())
    }

    #[test]
    fn a_missing_dependent_setting_is_reported_by_name() {
        assert_eq!(
            errors(&[("WINDLASS_TLS_KEY", "/dev/null")]),
            ["WINDLASS_TLS_KEY: http.tls_key: requires `http.tls_certificate`"]
        );
        let found = errors(&[("WINDLASS_JWT_SECRET", "short")]);
        assert_eq!(found.len(), 3, "{found:?}");
    }

    #[test]
    fn the_anonymous_share_must_fit_one_body() {
        let found = errors(&[("WINDLASS_BODY_BYTES_AT_ONCE", "4194304")]);
        assert!(found.len() == 1 && found[0].contains("eight times limits.body_bytes"), "{found:?}");
    }

    #[test]
    fn an_invalid_secret_is_not_printed() {
        for found in errors(&[
            ("DATABASE_URL", "postgresql://u:hunter2@/x?sslmode=sometimes"),
            ("WINDLASS_JWT_SECRET", "hunter2"),
        ]) {
            assert!(!found.contains("hunter2"), "{found}");
        }
    }
}
