//! The environment of a command: exactly the variables of its configuration, and none of the worker's own.

use super::argv::{Element, PlaceholderValues};
use crate::error::Result;
use crate::worker::file::Table;

/// Variables with which one program can control another. They are never inherited from the worker and never contain a
/// value of a job; a constant in the file is set by the operator.
const DANGEROUS: &[&str] =
    &["PATH", "BASH_ENV", "ENV", "IFS", "SHELLOPTS", "PYTHONPATH", "PYTHONSTARTUP", "PERL5LIB", "RUBYLIB"];
const DANGEROUS_STARTS: &[&str] = &["LD_", "GIT_", "DYLD_", "WINDLASS_"];
const DANGEROUS_ENDS: &[&str] = &["_OPTIONS", "_PROXY", "DATABASE_URL"];

#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    /// Inherited from the worker, if it has them.
    inherited: Vec<String>,
    set: Vec<(String, Element)>,
    secrets: Vec<(String, Secret)>,
}

/// A value that is never shown.
#[derive(Clone)]
struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl Environment {
    /// Reads `env`, `set` and `secrets`; also returns every secret value, to be redacted.
    pub(crate) fn read(table: &mut Table<'_>) -> Result<(Self, Vec<String>)> {
        let mut read = Self::default();
        if let Some(items) = table.list("env")? {
            for item in items {
                let name = table.as_text("env", item)?;
                check_name(&name).map_err(|why| table.wrong("env", item, &why))?;
                if is_dangerous(&name) {
                    let why = format!(
                        "{name} cannot be inherited from the worker; set a constant value with `set`"
                    );
                    return Err(table.wrong("env", item, &why));
                }
                read.inherited.push(name);
            }
        }
        if let Some(set) = table.table("set")? {
            for (name, item) in set.items() {
                check_name(&name).map_err(|why| set.wrong(&name, item, &why))?;
                let text = set.as_text(&name, item)?;
                let value = Element::parse(&text).map_err(|why| set.wrong(&name, item, &why))?;
                if is_dangerous(&name) && !value.is_constant() {
                    return Err(set.wrong(
                        &name,
                        item,
                        "must be constant, because this variable controls other programs",
                    ));
                }
                read.set.push((name, value));
            }
        }
        let mut values = Vec::new();
        for (name, mut secret) in table.tables("secrets")? {
            check_name(&name).map_err(|why| secret.missing("", &why))?;
            let (from_env, from_file) = (secret.text("env")?, secret.text("file")?);
            let value = match (&from_env, &from_file) {
                (Some(variable), None) => std::env::var(variable).map_err(|_| {
                    secret.missing("env", &format!("environment variable {variable} is not set"))
                })?,
                (None, Some(path)) => std::fs::read_to_string(path)
                    .map(|text| text.strip_suffix('\n').unwrap_or(&text).to_owned())
                    .map_err(|error| secret.missing("file", &format!("cannot read {path}: {error}")))?,
                _ => return Err(secret.missing("", "must have exactly one of env and file")),
            };
            if value.len() < crate::text::redact::MIN_SECRET_LENGTH || value.contains('\0') {
                let why = format!(
                    "must have at least {} bytes and no NUL, because it could not be redacted",
                    crate::text::redact::MIN_SECRET_LENGTH
                );
                return Err(secret.missing("", &why));
            }
            values.push(value.clone());
            if secret.flag("inject")?.unwrap_or(true) {
                read.secrets.push((name, Secret(value)));
            }
            secret.finish()?;
        }
        Ok((read, values))
    }

    /// Returns the name and value of every variable for one job.
    pub(crate) fn build(&self, facts: &PlaceholderValues<'_>) -> Result<Vec<(String, String)>, String> {
        let mut all: Vec<(String, String)> = Vec::new();
        for name in &self.inherited {
            if let Ok(value) = std::env::var(name) {
                all.push((name.clone(), value));
            }
        }
        for (name, element) in &self.set {
            if let Some(value) = element.fill(facts)? {
                if value.contains('\0') {
                    return Err(format!("the value of {name} contains NUL"));
                }
                all.push((name.clone(), value));
            }
        }
        all.extend(self.secrets.iter().map(|(name, secret)| (name.clone(), secret.0.clone())));
        Ok(all)
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_good = !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !name.as_bytes()[0].is_ascii_digit();
    if is_good { Ok(()) } else { Err(format!("{name:?} is not a valid variable name")) }
}

fn is_dangerous(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    DANGEROUS.contains(&name.as_str())
        || DANGEROUS_STARTS.iter().any(|start| name.starts_with(start))
        || DANGEROUS_ENDS.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_other_programs_are_never_inherited() {
        for name in [
            "PATH",
            "LD_PRELOAD",
            "BASH_ENV",
            "NODE_OPTIONS",
            "GIT_SSH_COMMAND",
            "https_proxy",
            "DATABASE_URL",
            "WINDLASS_DATABASE_URL",
        ] {
            assert!(is_dangerous(name), "{name}");
        }
        assert!(!is_dangerous("LANG") && !is_dangerous("TZ"));
    }
}
