//! The log of the process, on standard error: readable text on a terminal, JSON elsewhere.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, Logs};

/// Starts logging. A second start in one process changes nothing.
pub(crate) fn start(logs: &Logs) {
    let is_json = match logs.format {
        LogFormat::Json => true,
        LogFormat::Pretty => false,
        LogFormat::Auto => !io::stderr().is_terminal(),
    };
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter(logs, is_json)).with_writer(io::stderr);
    // Another subscriber may be installed: by a test, or by an application that embeds this crate.
    let _ = if is_json {
        subscriber.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
    } else {
        subscriber.with_target(false).try_init()
    };
}

/// State changes of jobs are logged by one module at debug, independent of the level of the rest. What the HTTP/2 library logs below
/// the level error is about its peers, which could fill the log; a filter that names it takes precedence.
fn filter(logs: &Logs, is_json: bool) -> EnvFilter {
    let given = EnvFilter::try_new(&logs.filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let names_h2 = logs.filter.split(',').any(|directive| directive.trim().starts_with("h2"));
    let filter = match "h2=error".parse() {
        Ok(directive) if !names_h2 => given.add_directive(directive),
        _ => given,
    };
    if !logs.jobs.unwrap_or(is_json) {
        return filter;
    }
    match "windlass::telemetry=debug".parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    }
}

#[cfg(test)]
mod tests {
    use super::filter;
    use crate::config::{LogFormat, Logs};

    #[test]
    fn state_changes_are_logged_as_json_by_default() {
        let logs = |jobs| Logs { format: LogFormat::Auto, filter: "warn".to_owned(), jobs };
        assert!(filter(&logs(None), true).to_string().contains("windlass::telemetry=debug"));
        assert!(!filter(&logs(None), false).to_string().contains("telemetry"));
        assert!(!filter(&logs(Some(false)), true).to_string().contains("telemetry"));
    }

    #[test]
    fn a_peer_cannot_fill_the_log_with_errors_of_http2() {
        let logs = |filter: &str| Logs { format: LogFormat::Auto, filter: filter.to_owned(), jobs: None };
        assert!(filter(&logs("debug"), false).to_string().contains("h2=error"));
        assert!(!filter(&logs("info,h2=trace"), false).to_string().contains("h2=error"));
    }
}
