//! Merges the settings: flags, then the environment, then the file, then defaults. All errors are collected with their location
//! and reported together, so that a file can be fixed in one go.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use confique::meta::{Expr, FieldKind, LeafKind, Meta};
use confique::{Config, Layer};
use toml::de::DeTable;

use super::spelling::unknown;
use super::{Configuration, check};
use crate::parser_messages::plain;

type Partial = <Configuration as Config>::Layer;

/// The sources of the settings, in order of precedence.
#[derive(Debug, Default)]
pub(crate) struct Sources<'a> {
    /// Key, flag and value, such as `("http.listen", "--listen", "0.0.0.0:80")`.
    pub(crate) flags: Vec<(&'static str, &'static str, String)>,
    pub(crate) variables: HashMap<String, String>,
    pub(crate) file: Option<&'a Path>,
}

impl Sources<'_> {
    /// This process's environment.
    #[must_use]
    pub(crate) fn environment() -> HashMap<String, String> {
        // A variable that is not UTF-8 cannot be one of ours.
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }
}

/// An error in the configuration, and its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigError {
    pub(crate) location: Location,
    /// Empty if the error concerns the whole file.
    pub(crate) key: String,
    pub(crate) message: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Location {
    File {
        path: PathBuf,
        line: usize,
    },
    Variable(String),
    Flag(&'static str),
    /// A required setting that is not set.
    Nowhere,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.location {
            Location::File { path, line } => write!(f, "{}:{line}: ", path.display())?,
            Location::Variable(name) => write!(f, "{name}: ")?,
            Location::Flag(flag) => write!(f, "{flag}: ")?,
            Location::Nowhere => {}
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

/// A configuration, and the source of each setting that is not a default.
#[derive(Debug)]
pub(crate) struct Sourced {
    pub(crate) configuration: Configuration,
    pub(crate) locations: HashMap<String, Location>,
}

/// Reads, merges and checks the sources; returns all errors.
pub(crate) fn load(sources: &Sources<'_>) -> Result<Sourced, Vec<ConfigError>> {
    let mut reading = Reading::default();
    for (key, flag, value) in &sources.flags {
        if let Some(leaf) = leaves().find(|leaf| leaf.key() == *key) {
            reading.take_text(&leaf, value, Location::Flag(flag));
        }
    }
    for leaf in leaves() {
        if let Some(value) = sources.variables.get(leaf.variable).filter(|value| !value.is_empty()) {
            reading.take_text(&leaf, value, Location::Variable(leaf.variable.to_owned()));
        }
    }
    if let Some(path) = sources.file {
        reading.take_file(path);
    }
    let Reading { layer, locations, mut errors } = reading;
    let layer = layer.unwrap_or_else(Partial::empty).with_fallback(Partial::default_values());
    match Configuration::from_layer(layer) {
        Ok(configuration) => {
            errors.extend(check::check(&configuration, &locations));
            if errors.is_empty() { Ok(Sourced { configuration, locations }) } else { Err(errors) }
        }
        Err(error) => {
            let (location, message) = (Location::Nowhere, error.to_string());
            errors.push(ConfigError { location, key: String::new(), message });
            Err(errors)
        }
    }
}

/// One setting, as declared.
pub(super) struct Leaf {
    section: &'static str,
    name: &'static str,
    pub(super) variable: &'static str,
    pub(super) default: Option<String>,
    pub(super) doc: &'static [&'static str],
}

impl Leaf {
    pub(super) fn key(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }
}

/// Every setting, in order. Sections are one level deep, and every setting has a variable; a test checks both.
pub(super) fn leaves() -> impl Iterator<Item = Leaf> {
    sections().flat_map(|(section, meta)| {
        meta.fields.iter().filter_map(move |field| match field.kind {
            FieldKind::Leaf { env, kind } => Some(Leaf {
                section,
                name: field.name,
                variable: env.unwrap_or_default(),
                default: match kind {
                    LeafKind::Required { default } => default.map(|default| spell(&default)),
                    LeafKind::Optional => None,
                },
                doc: field.doc,
            }),
            FieldKind::Nested { .. } => None,
        })
    })
}

fn sections() -> impl Iterator<Item = (&'static str, &'static Meta)> {
    Configuration::META.fields.iter().filter_map(|field| match field.kind {
        FieldKind::Nested { meta } => Some((field.name, meta)),
        FieldKind::Leaf { .. } => None,
    })
}

fn spell(value: &Expr) -> String {
    match value {
        Expr::Str(text) => (*text).to_owned(),
        Expr::Float(number) => number.to_string(),
        Expr::Integer(number) => number.to_string(),
        Expr::Bool(value) => value.to_string(),
        _ => String::new(),
    }
}

#[derive(Default)]
struct Reading {
    layer: Option<Partial>,
    locations: HashMap<String, Location>,
    errors: Vec<ConfigError>,
}

impl Reading {
    /// Adds a value below the existing ones: the first source wins.
    fn add(&mut self, leaf: &Leaf, value: Partial, location: Location) {
        self.locations.entry(leaf.key()).or_insert(location);
        self.layer = Some(match self.layer.take() {
            Some(layer) => layer.with_fallback(value),
            None => value,
        });
    }

    fn report(&mut self, location: Location, key: impl Into<String>, message: impl Into<String>) {
        self.errors.push(ConfigError { location, key: key.into(), message: message.into() });
    }

    /// The text of a flag or variable: parsed as TOML if that fits the setting, else taken as a string.
    fn take_text(&mut self, leaf: &Leaf, text: &str, location: Location) {
        let quoted = toml::Value::String(text.to_owned()).to_string();
        match parse(leaf, text).or_else(|_| parse(leaf, &quoted)) {
            Ok(value) => self.add(leaf, value, location),
            Err(message) => self.report(location, leaf.key(), message),
        }
    }

    fn take_file(&mut self, path: &Path) {
        let location = |line| Location::File { path: path.to_owned(), line };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                let message = format!("{}: cannot read the file: {error}", path.display());
                return self.report(Location::Nowhere, "", message);
            }
        };
        let (table, errors) = DeTable::parse_recoverable(&text);
        for error in &errors {
            let line = error.span().map_or(1, |span| line_of(&text, span.start));
            self.report(location(line), "", error.message().trim().to_owned());
        }
        if !errors.is_empty() {
            return;
        }
        for (section, content) in table.get_ref() {
            let line = line_of(&text, section.span().start);
            let known = sections().find(|(name, _)| *name == section.get_ref().as_ref());
            let Some((name, _)) = known else {
                let all: Vec<&str> = sections().map(|(name, _)| name).collect();
                self.report(
                    location(line),
                    section.get_ref().to_string(),
                    unknown("section", section.get_ref(), &all),
                );
                continue;
            };
            let Some(entries) = content.get_ref().as_table() else {
                let message = format!("is a section: write [{name}] and its settings below it");
                self.report(location(line), name, message);
                continue;
            };
            for (key, value) in entries {
                let line = line_of(&text, key.span().start);
                let Some(leaf) =
                    leaves().find(|leaf| leaf.section == name && leaf.name == key.get_ref().as_ref())
                else {
                    let all: Vec<&str> =
                        leaves().filter(|leaf| leaf.section == name).map(|leaf| leaf.name).collect();
                    self.report(
                        location(line),
                        format!("{name}.{}", key.get_ref()),
                        unknown("setting", key.get_ref(), &all),
                    );
                    continue;
                };
                match parse(&leaf, &text[value.span()]) {
                    Ok(value) => self.add(&leaf, value, location(line)),
                    Err(message) => self.report(location(line), leaf.key(), message),
                }
            }
        }
    }
}

/// A layer with this one setting, from a TOML value.
fn parse(leaf: &Leaf, value: &str) -> Result<Partial, String> {
    let document = format!("[{}]\n{} = {value}\n", leaf.section, leaf.name);
    toml::from_str(&document).map_err(|error| plain(error.message()))
}

fn line_of(text: &str, offset: usize) -> usize {
    text[..offset.min(text.len())].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;

    use super::{Location, Sources, leaves, load};
    use crate::config::{LogFormat, example, settings};

    fn file(text: &str) -> tempfile::Written {
        tempfile::Written::new(text)
    }

    /// A file that is deleted with its test.
    mod tempfile {
        use std::path::PathBuf;

        pub(super) struct Written(pub(super) PathBuf);

        impl Written {
            pub(super) fn new(text: &str) -> Self {
                let path =
                    std::env::temp_dir().join(format!("windlass-{}.toml", uuid::Uuid::new_v4().simple()));
                std::fs::write(&path, text).unwrap();
                Self(path)
            }
        }

        impl Drop for Written {
            fn drop(&mut self) {
                let _ = std::fs::remove_file(&self.0);
            }
        }
    }

    fn errors(sources: &Sources<'_>) -> Vec<String> {
        load(sources).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn flags_precede_the_environment_then_the_file_then_the_default() {
        let file = file("[http]\nlisten = '127.0.0.1:1'\nstop_seconds = 7\n[worker]\nconcurrency = 3\n");
        let variables = HashMap::from([
            ("WINDLASS_LISTEN".to_owned(), "127.0.0.1:2".to_owned()),
            ("WINDLASS_CONCURRENCY".to_owned(), "4".to_owned()),
            ("WINDLASS_LOG_FORMAT".to_owned(), "json".to_owned()),
        ]);
        let flags = vec![("http.listen", "--listen", "127.0.0.1:3".to_owned())];
        let loaded = load(&Sources { flags, variables, file: Some(&file.0) }).unwrap();
        let configuration = loaded.configuration;
        assert_eq!(configuration.http.listen.port(), 3);
        assert_eq!(configuration.worker.concurrency, 4);
        assert_eq!(configuration.http.stop_seconds, 7);
        assert_eq!(configuration.database.connections, 8);
        assert_eq!(configuration.logs.format, LogFormat::Json);
        assert_eq!(loaded.locations["http.listen"], Location::Flag("--listen"));
    }

    #[test]
    fn every_error_has_its_file_line_and_key() {
        let file = file(
            "[http]\nlisten = 'nowhere'\nlisten_adress = 1\n\n[databse]\nurl = 'x'\n[worker]\nconcurrency = 'many'\n",
        );
        let variables = HashMap::from([("WINDLASS_METRICS".to_owned(), "perhaps".to_owned())]);
        let found = errors(&Sources { variables, file: Some(&file.0), ..Sources::default() });
        let path = file.0.display().to_string();
        let expected = [
            "WINDLASS_METRICS: metrics.enabled: ",
            &format!("{path}:2: http.listen: must be IP:PORT, such as 127.0.0.1:8080"),
            &format!("{path}:3: http.listen_adress: unknown setting; did you mean `listen`?"),
            &format!("{path}:5: databse: unknown section; did you mean `database`?"),
            &format!("{path}:8: worker.concurrency: must be a whole number"),
        ];
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for start in expected {
            assert!(found.iter().any(|error| error.starts_with(start)), "{start} in {found:#?}");
        }
    }

    #[test]
    fn an_invalid_or_missing_file_is_reported_with_its_line() {
        let file = file("[http]\nlisten = \n");
        let found = errors(&Sources { file: Some(&file.0), ..Sources::default() });
        assert!(found[0].starts_with(&format!("{}:2: ", file.0.display())), "{found:?}");
        let found = errors(&Sources { file: Some(Path::new("/nowhere.toml")), ..Sources::default() });
        assert!(found[0].starts_with("/nowhere.toml: cannot read the file"), "{found:?}");
    }

    #[test]
    fn the_example_is_a_valid_file_that_changes_nothing_and_shows_every_setting() {
        let example = example();
        let written = file(&example);
        let loaded = load(&Sources { file: Some(&written.0), ..Sources::default() }).unwrap();
        assert!(loaded.locations.is_empty());
        for setting in settings() {
            let name = setting.key.split('.').next_back().unwrap();
            assert!(example.contains(&format!("#{name} =")), "{}", setting.key);
            assert!(example.contains(setting.variable), "{}", setting.key);
        }
    }

    #[test]
    fn every_setting_has_its_own_variable_and_a_description() {
        let mut variables: Vec<&str> = leaves().map(|leaf| leaf.variable).collect();
        assert!(leaves().all(|leaf| !leaf.variable.is_empty() && !leaf.doc.is_empty()));
        variables.sort_unstable();
        variables.dedup();
        assert_eq!(variables.len(), leaves().count());
    }
}
