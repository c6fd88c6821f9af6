//! The hooks through which other services may emit events: each has a name, a secret, a tenant and the event it emits. They
//! stand in a file of the server's, because a secret that signs must be readable and the database should hold none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use uuid::Uuid;
use windlass::webhook::Key;

use crate::auth::Secret;

/// Every hook, by its name.
#[derive(Debug, Default)]
pub struct Hooks(BTreeMap<String, Hook>);

#[derive(Debug)]
pub(crate) struct Hook {
    pub(crate) tenant: Uuid,
    pub(crate) event: String,
    /// Several while a secret is being changed.
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

/// Untagged also because a value of the wrong type is then refused without being told.
#[derive(Deserialize)]
#[serde(untagged)]
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
    /// Reads the file; what is wrong is said with the hook's name and never with its secret.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        Self::parse(&text, path.parent().unwrap_or(Path::new(".")))
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// `beside`: where files are that are named by a path of their own.
    pub fn parse(text: &str, beside: &Path) -> Result<Self, String> {
        // The whole message of the parser shows the line, and the line may be the secret's.
        let file: File = toml::from_str(text).map_err(|error| error.message().trim().to_owned())?;
        let mut hooks = BTreeMap::new();
        for (name, entry) in file.hooks {
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            if name.is_empty() || name.len() > 50 || !name.chars().all(is_name) {
                return Err(format!("hooks.{name:?}: a name has up to 50 letters, digits, _ and -"));
            }
            let hook = entry.hook(beside).map_err(|error| format!("hooks.{name}: {error}"))?;
            hooks.insert(name, hook);
        }
        Ok(Self(hooks))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Hook> {
        self.0.get(name)
    }
}

impl Entry {
    fn hook(self, beside: &Path) -> Result<Hook, String> {
        let mut secrets = self.secrets.as_ref().map(Secrets::texts).unwrap_or_default();
        if let Some(file) = &self.secret_file {
            let path = beside.join(file);
            let text = std::fs::read_to_string(&path)
                .map_err(|error| format!("secret_file {} cannot be read: {error}", path.display()))?;
            secrets.extend(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned));
        }
        if secrets.is_empty() {
            return Err("needs `secrets` or a `secret_file`: a hook without one would take everybody's word"
                .to_owned());
        }
        windlass::NewEvent::new(&self.event).check().map_err(|error| format!("event: {error}"))?;
        let keys = secrets.iter().map(|secret| Key::new(secret)).collect::<Result<_, _>>();
        let keys = keys.map_err(|error| format!("a secret {error}"))?;
        Ok(Hook { tenant: self.tenant, event: self.event, keys })
    }
}

impl Hook {
    pub(crate) fn knows(&self, message: &Signed<'_>) -> bool {
        self.keys.iter().fold(false, |known, key| known | message.is_signed_by(key))
    }
}

/// What a sender signed.
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

    /// As much work as for a hook that exists: which names there are is nobody's business.
    pub(crate) fn against_nobody(&self) -> bool {
        let secret = Uuid::new_v4().to_string();
        Key::new(&secret).is_ok_and(|key| self.is_signed_by(&key))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Hooks;

    fn mistake(text: &str) -> String {
        Hooks::parse(text, Path::new("/nowhere")).expect_err("it is wrong")
    }

    #[test]
    fn what_is_wrong_is_named_and_no_secret_is_told() {
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
            (hook(""), "hooks.dropbox: needs `secrets`"),
            (hook("secrets = [\"hunter2\"]"), "hooks.dropbox: a secret must have at least 16 bytes"),
            (hook("secret_file = \"missing\""), "hooks.dropbox: secret_file /nowhere/missing cannot be read"),
            (hook(&format!("secrets = [\"{secret}\"]")).replace("a.b", "a b"), "hooks.dropbox: event: "),
            (hook("secrets = 7"), "did not match"),
            (hook(&format!("secrets = {{ first = \"{secret}\" }}")), "did not match"),
            (hook(&format!("colour = \"{secret}\"")), "unknown field `colour`"),
            ("[hooks.\"a b\"]\ntenant = 1".to_owned(), "UUID"),
        ] {
            let said = mistake(&text);
            assert!(said.contains(expected), "{said}");
            assert!(!said.contains("hunter2"), "{said}");
        }
    }
}
