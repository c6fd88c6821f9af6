//! The webhooks through which other services emit events: each has a name, a secret, a tenant and an event name. They are
//! configured in a file, because a signing secret must be readable and the database should not contain any.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use uuid::Uuid;
use windlass::webhook::Key;

use crate::auth::Secret;
use crate::parser_messages::{field_of, plain};

/// Every hook, by its name.
#[derive(Debug, Default)]
pub struct Hooks(BTreeMap<String, Hook>);

#[derive(Debug)]
pub(crate) struct Hook {
    pub(crate) tenant: Uuid,
    pub(crate) event: String,
    /// Several while a secret is being rotated.
    keys: Vec<Key>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    hooks: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    tenant: Uuid,
    event: String,
    secrets: Option<Secrets>,
    secret_file: Option<PathBuf>,
}

/// Untagged also so that the error for a value of the wrong type does not print the value.
#[derive(Deserialize)]
#[serde(untagged, expecting = "must be a string or a list of strings")]
enum Secrets {
    One(Secret),
    Several(Vec<Secret>),
}

impl Secrets {
    fn texts(&self) -> Vec<String> {
        match self {
            Self::One(secret) => vec![secret.expose().to_owned()],
            Self::Several(secrets) => secrets.iter().map(|secret| secret.expose().to_owned()).collect(),
        }
    }
}

impl Hooks {
    /// Reads the file; errors contain the name of the hook and never its secret.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Self::parse(&text, path.parent().unwrap_or(Path::new(".")))
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// `directory`: the directory of relative paths.
    pub fn parse(text: &str, directory: &Path) -> Result<Self, String> {
        // The full message of the parser shows the line, and the line may contain a secret.
        let line = |error: &toml::de::Error| {
            error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1)
        };
        let parser = toml::Deserializer::parse(text)
            .map_err(|error| format!("line {}: {}", line(&error), error.message().trim()))?;
        let file: File = serde_path_to_error::deserialize(parser).map_err(|error| {
            let (path, message) = (error.path().to_string(), error.inner().message());
            match field_of(message).filter(|field| !path.ends_with(&format!(".{field}"))) {
                Some(field) => format!("{path}.{field}: {}", plain(message)),
                None => format!("{path}: {}", plain(message)),
            }
        })?;
        let mut hooks = BTreeMap::new();
        for (name, entry) in file.hooks {
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            if name.is_empty() || name.len() > 50 || !name.chars().all(is_name) {
                return Err(format!("hooks.{name:?}: the name must have 1 to 50 letters, digits, _ and -"));
            }
            let hook = entry.hook(directory).map_err(|error| format!("hooks.{name}: {error}"))?;
            hooks.insert(name, hook);
        }
        Ok(Self(hooks))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Hook> {
        self.0.get(name)
    }
}

impl Entry {
    fn hook(self, directory: &Path) -> Result<Hook, String> {
        let mut secrets = self.secrets.as_ref().map(Secrets::texts).unwrap_or_default();
        if let Some(file) = &self.secret_file {
            let path = directory.join(file);
            let text = std::fs::read_to_string(&path)
                .map_err(|error| format!("cannot read secret_file {}: {error}", path.display()))?;
            secrets.extend(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned));
        }
        if secrets.is_empty() {
            return Err(
                "requires `secrets` or `secret_file`: without a secret anyone could emit events".to_owned()
            );
        }
        windlass::events::NewEvent::new(&self.event).check().map_err(|error| format!("event: {error}"))?;
        let keys = secrets.iter().map(|secret| Key::new(secret)).collect::<Result<_, _>>();
        let keys = keys.map_err(|error| format!("a secret {error}"))?;
        Ok(Hook { tenant: self.tenant, event: self.event, keys })
    }
}

impl Hook {
    pub(crate) fn verifies(&self, message: &Signed<'_>) -> bool {
        self.keys.iter().fold(false, |known, key| known | message.is_signed_by(key))
    }
}

/// A signed message.
pub(crate) struct Signed<'a> {
    pub(crate) id: &'a str,
    pub(crate) timestamp: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) signatures: &'a str,
}

impl Signed<'_> {
    fn is_signed_by(&self, key: &Key) -> bool {
        key.verify(self.id, self.timestamp, self.body, self.signatures)
    }

    /// The same work as for an existing hook, so that the response time does not reveal which names exist.
    pub(crate) fn verify_unknown(&self) -> bool {
        let secret = Uuid::new_v4().to_string();
        Key::new(&secret).is_ok_and(|key| self.is_signed_by(&key))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Hooks;

    fn error_of(text: &str) -> String {
        Hooks::parse(text, Path::new("/nowhere")).expect_err("invalid")
    }

    #[test]
    fn errors_name_the_hook_and_never_print_a_secret() {
        let hook = |more: &str| {
            format!(
                "[hooks.dropbox]\ntenant = \"00000000-0000-7000-8000-000000000001\"\nevent = \"a.b\"\n{more}\n"
            )
        };
        let secret = "hunter2hunter2hunter2";
        for secrets in [format!("[\"{secret}\"]"), format!("\"{secret}\"")] {
            assert!(Hooks::parse(&hook(&format!("secrets = {secrets}")), Path::new(".")).is_ok());
        }
        for (text, expected) in [
            (hook(""), "hooks.dropbox: requires `secrets`"),
            (hook("secrets = [\"hunter2\"]"), "hooks.dropbox: a secret must have at least 16 bytes"),
            (hook("secret_file = \"missing\""), "hooks.dropbox: cannot read secret_file /nowhere/missing"),
            (hook(&format!("secrets = [\"{secret}\"]")).replace("a.b", "a b"), "hooks.dropbox: event: "),
            (hook("secrets = 7"), "hooks.dropbox.secrets: must be a string or a list of strings"),
            (hook(&format!("secrets = {{ first = \"{secret}\" }}")), "must be a string or a list of strings"),
            (hook(&format!("colour = \"{secret}\"")), "hooks.dropbox.colour: unknown field"),
            ("[hooks.\"a b\"]\ntenant = 1".to_owned(), "tenant: must be a UUID"),
        ] {
            let message = error_of(&text);
            assert!(message.contains(expected), "{message}");
            assert!(!message.contains("hunter2"), "{message}");
        }
    }
}
