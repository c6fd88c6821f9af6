//! The configuration file of the worker: the commands that it can run, and how. Argument vectors are written only here,
//! so access to the API or the database does not allow running anything else.
//!
//! Every error names the file, the line and the key.

mod table;

use std::path::Path;

#[cfg(feature = "commands")]
use super::command::CommandSpec;
#[cfg(feature = "http-jobs")]
use super::http::{HttpEndpoint, HttpKind};
use crate::error::{Error, Result};
pub(crate) use table::{ConfigText, Item, Table};

/// A worker's configuration, read and validated completely.
///
/// ```
/// use windlass::worker::WorkerFile;
///
/// let text = "[worker]\nconcurrency = 4\n\n[commands.resize]\nargv = [\"/usr/bin/convert\", \"{payload.path}\"]\n";
/// assert!(WorkerFile::is_one(text));
/// let file = WorkerFile::parse("worker.toml", text)?;
/// assert_eq!((file.concurrency, file.keys()), (Some(4), vec!["resize"]));
/// // An error names the file, the line and the key.
/// assert!(WorkerFile::parse("worker.toml", "[worker]\ncolour = 4\n").is_err());
/// assert!(WorkerFile::read("/no/such/file".as_ref()).is_err());
/// # Ok::<(), windlass::Error>(())
/// ```
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct WorkerFile {
    /// The URL of the database.
    pub database_url: Option<String>,
    /// The maximum number of running jobs.
    pub concurrency: Option<usize>,
    /// The maximum number of prefetched jobs.
    pub prefetch: Option<usize>,
    /// The queues to take jobs from.
    pub queues: Option<Vec<String>>,
    /// The length of the lease.
    pub lease: Option<std::time::Duration>,
    /// How long a stop waits for running jobs.
    pub grace: Option<std::time::Duration>,
    /// The definitions that are run as commands.
    #[cfg(feature = "commands")]
    pub commands: Vec<CommandSpec>,
    /// The definitions that are sent over HTTP.
    #[cfg(feature = "http-jobs")]
    pub http: Vec<(String, HttpEndpoint)>,
}

impl WorkerFile {
    /// Reads and validates a file.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| Error::Configuration {
            file: name.clone(),
            line: 0,
            key: String::new(),
            message: format!("cannot read the file: {error}"),
        })?;
        Self::parse(&name, &text)
    }

    /// Parses the text of a file; `name` is used in errors.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let source = ConfigText { name, text };
        let document = source.parse()?;
        let mut root = Table::root(&source, document.get_ref());
        let mut file = Self::default();
        if let Some(mut worker) = root.table("worker")? {
            file.database_url = worker.text("database_url")?;
            file.concurrency = worker.number("concurrency", 1..=10_000)?;
            file.prefetch = worker.number("prefetch", 0..=10_000)?;
            file.queues = worker.texts("queues")?;
            file.lease = worker.duration("lease")?;
            file.grace = worker.duration("grace")?;
            worker.finish()?;
        }
        #[cfg(feature = "commands")]
        for (key, table) in root.tables("commands")? {
            file.commands.push(CommandSpec::read(&key, table)?);
        }
        #[cfg(feature = "http-jobs")]
        for (key, table) in root.tables("http")? {
            let endpoint = read_endpoint(&key, &table)?;
            file.http.push((key, endpoint));
        }
        root.finish()?;
        Ok(file)
    }

    /// Whether a text is such a file, and not the settings of a whole process, which may refer to one.
    pub fn is_one(text: &str) -> bool {
        let source = ConfigText { name: "", text };
        let Ok(document) = source.parse() else { return false };
        let mut root = Table::root(&source, document.get_ref());
        let has_endpoints = root.tables("http").is_ok_and(|tables| !tables.is_empty());
        root.item("commands").is_some() || has_endpoints
    }

    /// Returns the keys of the definitions that it has handlers for.
    pub fn keys(&self) -> Vec<&str> {
        let mut keys: Vec<&str> = Vec::new();
        #[cfg(feature = "commands")]
        keys.extend(self.commands.iter().map(CommandSpec::key));
        #[cfg(feature = "http-jobs")]
        keys.extend(self.http.iter().map(|(key, _)| key.as_str()));
        keys
    }
}

/// The checks of the endpoint name a setting; this finds the line.
#[cfg(feature = "http-jobs")]
fn read_endpoint(key: &str, table: &Table<'_>) -> Result<HttpEndpoint> {
    let endpoint: HttpEndpoint =
        serde_json::from_value(table.as_json()).map_err(|error| table.missing("", &error.to_string()))?;
    match HttpKind::new(key, &endpoint) {
        Ok(_) => Ok(endpoint),
        Err(Error::Refused { field, message, .. }) => {
            let setting = field.rsplit('.').find(|part| part.parse::<usize>().is_err()).unwrap_or_default();
            let item = table.items().find(|(name, _)| name == setting);
            Err(item.map_or_else(
                || table.missing(setting, &message),
                |(_, item)| table.wrong(setting, item, &message),
            ))
        }
        Err(other) => Err(other),
    }
}

#[cfg(all(test, feature = "commands", feature = "http-jobs"))]
mod tests {
    use super::*;

    fn error_of(text: &str) -> String {
        WorkerFile::parse("worker.toml", text).expect_err("the file has a mistake").to_string()
    }

    #[test]
    fn a_complete_file_is_parsed() {
        let file = WorkerFile::parse(
            "/etc/windlass/worker.toml",
            r#"
            [worker]
            concurrency = 4
            queues = ["default", "media"]
            lease = "20s"
            [commands.sync-dropbox]
            argv = ["./zoltag", "sync-dropbox", "--tenant-id", "{tenant.id}", { optional = ["--path", "{payload.path}"] }]
            limits = { memory = "512MB", cpu_seconds = 60 }
            exit_codes = { "75" = "retry", "64-78" = "permanent" }
            [http.ai-tagging]
            url = "https://example.com/tag"
            "#,
        )
        .unwrap();
        assert_eq!(file.keys(), ["sync-dropbox", "ai-tagging"]);
        assert_eq!((file.concurrency, file.lease), (Some(4), Some(std::time::Duration::from_secs(20))));
        let argv = file.commands[0].argv_for(uuid::Uuid::nil(), uuid::Uuid::nil(), 1, "{}").unwrap();
        assert_eq!(argv[..2], ["/etc/windlass/zoltag", "sync-dropbox"]);
    }

    #[test]
    fn every_error_names_file_line_and_key() {
        let cases = [
            ("[commands.a]\nargv = [\"/bin/true\"", "worker.toml:2: "),
            ("[commands.a]\n\nargs = [\"/bin/true\"]", "worker.toml:1: commands.a.argv: is required"),
            (
                "[commands.a]\nargv = [\"/bin/true\"]\ncwd_ = 1",
                "worker.toml:3: commands.a.cwd_: unknown key; expected one of argv, ",
            ),
            ("[commands.a]\nargv = [\"true\"]", "worker.toml:2: commands.a.argv[0]: must be a program"),
            (
                "[commands.a]\nargv = [\"/bin/x\",\n\"{payload}\"]",
                "worker.toml:3: commands.a.argv[1]: unknown placeholder `{payload}`",
            ),
            (
                "[commands.a]\nargv = [\"/bin/x\"]\nenv = [\"LANG\",\n \"PATH\"]",
                "worker.toml:4: commands.a.env: PATH cannot be inherited",
            ),
            (
                "[commands.a]\nargv = [\"/bin/x\"]\nset = { LD_PRELOAD = \"{payload.x}\" }",
                "worker.toml:3: commands.a.set.LD_PRELOAD: must be constant",
            ),
            (
                "[commands.a]\nargv = [\"/bin/x\"]\n[commands.a.limits]\nmemory = \"much\"",
                "worker.toml:4: commands.a.limits.memory: must be a size",
            ),
            (
                "[commands.a]\nargv = [\"/bin/x\"]\nexit_codes = { \"300\" = \"retry\" }",
                "worker.toml:3: commands.a.exit_codes.300: must be an exit code",
            ),
            (
                "[commands.a]\nargv = [\"/bin/x\"]\ngrace = \"soon\"",
                "worker.toml:3: commands.a.grace: must be a duration",
            ),
            ("[commands.a]\nargv = [\"/bin/x\"]\nredact = [\"(\"]", "worker.toml:1: commands.a.redact: "),
            (
                "[commands.a]\nargv = [\"/bin/x\"]\n[commands.a.secrets]\nT = { env = \"NOT_THERE_AT_ALL\" }",
                "worker.toml:4: commands.a.secrets.T.env: environment variable",
            ),
            (
                "[commands.a]\nargv = [\"/bin/x\"]\nuser = \"nobody-of-that-name\"",
                "worker.toml:1: commands.a.user: user nobody-of-that-name not found",
            ),
            (
                "[worker]\nconcurrency = 0",
                "worker.toml:2: worker.concurrency: must be a whole number from 1 to 10000",
            ),
            ("[http.a]\nurl = \"ftp://x\"", "worker.toml:2: http.a.url: must be an http or https URL"),
            ("[http.a]\nurl = \"https://x\"\nmethd = 1", "worker.toml:1: http.a: unknown field `methd`"),
            ("[comands.a]\nargv = []", "worker.toml:1: comands: unknown key"),
        ];
        for (text, expected) in cases {
            let error = error_of(text);
            assert!(error.starts_with(expected), "{error}\n  does not start with\n{expected}");
        }
    }

    #[test]
    fn a_worker_file_is_distinguished_from_process_settings() {
        assert!(WorkerFile::is_one("[commands.a]\nargv = []") && WorkerFile::is_one("[http.a]\nurl = ''"));
        assert!(!WorkerFile::is_one("[http]\nlisten = '127.0.0.1:80'\n[worker]\nfile = 'w.toml'"));
    }
}
