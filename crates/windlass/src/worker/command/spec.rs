//! One command of the worker's configuration file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use uuid::Uuid;

use super::argv::{self, Element, Part, PlaceholderValues, Rule, When};
use super::environment::Environment;
use super::exit::ExitCodes;
use super::message::Limits;
use crate::error::{Error, Result};
use crate::model::definition::Definition;
use crate::model::job::settle::OnTimeout;
use crate::text::redact::Redactor;
use crate::worker::file::{Item, Table};

/// A command that a worker can run: jobs specify its key, everything else stays in the file.
///
/// ```
/// use windlass::worker::WorkerFile;
///
/// let text = "[commands.resize]\nargv = [\"/usr/bin/convert\", \"{payload.path}\"]\n";
/// let file = WorkerFile::parse("worker.toml", text)?;
/// let command = &file.commands[0];
/// assert_eq!(command.key(), "resize");
/// let argv = command.argv_for(windlass::DEFAULT_TENANT, uuid::Uuid::from_u128(7), 1, r#"{ "path": "a.png" }"#)?;
/// assert_eq!(argv, ["/usr/bin/convert", "a.png"]);
/// # Ok::<(), windlass::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct CommandSpec {
    pub(crate) key: String,
    pub(crate) argv: Vec<Part>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) environment: Environment,
    pub(crate) redactor: Redactor,
    pub(crate) user: Option<(u32, u32)>,
    pub(crate) limits: Limits,
    /// The size of the output after which it is killed.
    pub(crate) output_limit: Option<u64>,
    pub(crate) exit_codes: ExitCodes,
    pub(crate) grace: Duration,
    pub(crate) tail_bytes: usize,
    pub(crate) gets_payload: bool,
    pub(crate) reports: bool,
    pub(crate) definition: Definition,
}

const GRACE: Duration = Duration::from_secs(5);
const TAIL_BYTES: u64 = 64 * 1024;

impl CommandSpec {
    /// Returns the key of the definition.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the argv of a job, to check a configuration before it is used.
    pub fn argv_for(&self, tenant: Uuid, job: Uuid, attempt: i32, payload: &str) -> Result<Vec<String>> {
        let facts = PlaceholderValues { tenant, job, attempt, payload };
        argv::build(&self.argv, &facts).map_err(|why| Error::refused("payload", why))
    }

    pub(crate) fn read(key: &str, mut table: Table<'_>) -> Result<Self> {
        let argv = read_argv(&mut table)?;
        let cwd = table.text("cwd")?.map(PathBuf::from);
        if cwd.as_ref().is_some_and(|cwd| !cwd.is_absolute()) {
            return Err(table.missing("cwd", "must be an absolute path"));
        }
        let (environment, secrets) = Environment::read(&mut table)?;
        let expressions = table.texts("redact")?.unwrap_or_default();
        let redactor = Redactor::new(secrets, expressions)
            .map_err(|error| table.missing("redact", &error.to_string()))?;
        let user = table
            .text("user")?
            .map(|user| user_of(&user).map_err(|why| table.missing("user", &why)))
            .transpose()?;
        let (limits, output_limit) = read_limits(&mut table)?;
        let exit_codes = ExitCodes::read(&mut table)?;
        let gets_payload = match table.text("stdin")?.as_deref() {
            None | Some("none") => false,
            Some("payload") => true,
            Some(_) => return Err(table.missing("stdin", "must be \"none\" or \"payload\"")),
        };
        let spec = Self {
            key: key.to_owned(),
            argv,
            cwd,
            environment,
            redactor,
            user,
            limits,
            output_limit,
            exit_codes,
            grace: table.duration("grace")?.unwrap_or(GRACE),
            tail_bytes: usize::try_from(table.bytes("tail")?.unwrap_or(TAIL_BYTES))
                .unwrap_or(usize::MAX)
                .min(1 << 20),
            gets_payload,
            reports: table.flag("report")?.unwrap_or(false),
            definition: read_definition(key, &mut table)?,
        };
        table.finish()?;
        Ok(spec)
    }
}

fn read_argv(table: &mut Table<'_>) -> Result<Vec<Part>> {
    let Some(items) = table.list("argv")? else {
        return Err(table.missing("argv", "is required: the program and its arguments, as a list"));
    };
    let mut argv = Vec::with_capacity(items.len());
    for (position, item) in items.into_iter().enumerate() {
        let key = format!("argv[{position}]");
        let mut part = match item.text() {
            Some(text) => Part {
                elements: vec![element(table, &key, item, text)?],
                when: When::Always,
                rule: Rule::default(),
            },
            None => read_part(table, &key, item)?,
        };
        part.check().map_err(|why| table.wrong(&key, item, &why))?;
        if position == 0 {
            part = program(table, part).ok_or_else(|| {
                let why = "must be a program without placeholders: an absolute path, or a path that starts with ./ relative to this file";
                table.wrong(&key, item, why)
            })?;
        }
        argv.push(part);
    }
    if argv.is_empty() {
        return Err(table.missing("argv", "must contain a program"));
    }
    Ok(argv)
}

fn program(table: &Table<'_>, part: Part) -> Option<Part> {
    let [first] = &part.elements[..] else { return None };
    if part.when != When::Always || !first.is_constant() {
        return None;
    }
    let path = first.constant();
    if path.starts_with('/') {
        return Some(part);
    }
    let path = table.directory().join(path.strip_prefix("./")?);
    let element = Element::constant_of(std::path::absolute(path).ok()?.to_str()?);
    Some(Part { elements: vec![element], ..part })
}

/// `{ value = … }`, `{ optional = […] }` or `{ each = […] }`, with the restrictions on its value.
fn read_part(outer: &Table<'_>, key: &str, item: Item<'_>) -> Result<Part> {
    let wrong = |why: &str| outer.wrong(key, item, why);
    let Some(mut table) = item.table(key) else { return Err(wrong("must be text or a table")) };
    let value = table.text("value")?.map(|value| vec![value]);
    let forms = [
        (When::Always, value),
        (When::Present, table.texts("optional")?),
        (When::Each, table.texts("each")?),
    ];
    let mut given = forms.into_iter().filter_map(|(when, texts)| Some((when, texts?)));
    let (Some((when, texts)), None) = (given.next(), given.next()) else {
        return Err(wrong("must have exactly one of value, optional and each"));
    };
    let elements = texts.iter().map(|text| element(outer, key, item, text)).collect::<Result<_>>()?;
    let pattern = table.text("pattern")?;
    let rule = Rule {
        may_begin_with_dash: table.flag("dash")?.unwrap_or(false),
        one_of: table.texts("one_of")?,
        pattern: pattern
            .map(|pattern| {
                regex::Regex::new(&format!("^(?:{pattern})$")).map_err(|error| wrong(&error.to_string()))
            })
            .transpose()?,
    };
    table.finish()?;
    Ok(Part { elements, when, rule })
}

fn element(table: &Table<'_>, key: &str, item: Item<'_>, text: &str) -> Result<Element> {
    Element::parse(text).map_err(|why| table.wrong(key, item, &why))
}

fn read_limits(table: &mut Table<'_>) -> Result<(Limits, Option<u64>)> {
    let Some(mut limits) = table.table("limits")? else { return Ok((Limits::default(), None)) };
    let read = Limits {
        memory: limits.bytes("memory")?,
        cpu_seconds: limits.number("cpu_seconds", 1..=31_536_000_u64)?,
        processes: limits.number("processes", 1..=1_000_000_u64)?,
        open_files: limits.number("open_files", 3..=1_000_000_u64)?,
        file_size: limits.bytes("file_size")?,
    };
    let output = limits.bytes("output")?;
    limits.finish()?;
    Ok((read, output))
}

/// Reads the fields of the definition in the file; the others are unchanged in the database.
fn read_definition(key: &str, table: &mut Table<'_>) -> Result<Definition> {
    let mut definition = Definition::new(key);
    if let Some(description) = table.text("description")? {
        definition = definition.description(description);
    }
    if let Some(queue) = table.text("queue")? {
        definition = definition.queue(queue);
    }
    if let Some(timeout) = table.duration("timeout")? {
        definition = definition.timeout(timeout, OnTimeout::Retry);
    }
    if let Some(most) = table.number("max_attempts", 1..=1000_u16)? {
        definition = definition.max_attempts(most);
    }
    if let Some(schema) = table.table("schema")? {
        definition = definition.arg_schema(schema.as_json());
    }
    definition.check().map_err(|error| table.missing("schema", &error.to_string()))?;
    Ok(definition)
}

/// `name`, `1000` or `1000:1000`. Names are looked up in /etc/passwd.
fn user_of(user: &str) -> Result<(u32, u32), String> {
    if let Some((uid, gid)) = user.split_once(':')
        && let (Ok(uid), Ok(gid)) = (uid.parse(), gid.parse())
    {
        return Ok((uid, gid));
    }
    let passwd = std::fs::read_to_string("/etc/passwd").map_err(|error| format!("/etc/passwd: {error}"))?;
    let known: BTreeMap<&str, (u32, u32)> = passwd
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            Some((*fields.first()?, (fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?)))
        })
        .collect();
    if let Ok(uid) = user.parse::<u32>() {
        let listed = known.values().find(|(known, _)| *known == uid);
        return Ok(listed.copied().unwrap_or((uid, uid)));
    }
    known.get(user).copied().ok_or_else(|| format!("user {user} not found"))
}
