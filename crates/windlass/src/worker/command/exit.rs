//! The meaning of a command's exit code for its job.

use std::time::Duration;

use crate::error::Result;
use crate::worker::file::{Item, Table};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Success,
    Retry,
    RetryAfter(Duration),
    Permanent,
    Snooze(Duration),
}

/// The table of the configuration. A single code takes precedence over a range; codes that are not listed are retried.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExitCodes {
    listed: Vec<(u8, u8, Meaning)>,
}

impl ExitCodes {
    pub(crate) fn of(&self, code: i32) -> Meaning {
        if code == 0 {
            return Meaning::Success;
        }
        let matching =
            self.listed.iter().filter(|(from, to, _)| (i32::from(*from)..=i32::from(*to)).contains(&code));
        matching.min_by_key(|(from, to, _)| to - from).map_or(Meaning::Retry, |(_, _, meaning)| *meaning)
    }

    pub(crate) fn read(table: &mut Table<'_>) -> Result<Self> {
        let mut codes = Self::default();
        let Some(listed) = table.table("exit_codes")? else { return Ok(codes) };
        for (name, item) in listed.items() {
            let range = match name.split_once('-') {
                Some((from, to)) => from.trim().parse().ok().zip(to.trim().parse().ok()),
                None => name.trim().parse().ok().map(|code: u8| (code, code)),
            };
            let Some((from, to)) = range.filter(|(from, to)| 1 <= *from && from <= to) else {
                return Err(listed.wrong(
                    &name,
                    item,
                    "must be an exit code from 1 to 255, or a range such as \"64-78\"",
                ));
            };
            let overlaps = codes.listed.iter().any(|(other_from, other_to, _)| {
                from.max(*other_from) <= to.min(*other_to) && (to - from == 0) == (other_to - other_from == 0)
            });
            if overlaps {
                return Err(listed.wrong(&name, item, "overlaps another one"));
            }
            codes.listed.push((from, to, meaning(&listed, &name, item)?));
        }
        Ok(codes)
    }
}

fn meaning(listed: &Table<'_>, name: &str, item: Item<'_>) -> Result<Meaning> {
    match item.text() {
        Some("success") => return Ok(Meaning::Success),
        Some("retry") => return Ok(Meaning::Retry),
        Some("permanent") => return Ok(Meaning::Permanent),
        Some(_) | None => {}
    }
    let expected = "must be \"success\", \"retry\", \"permanent\", { retry = \"5m\" } or { snooze = \"5m\" }";
    let Some(mut table) = item.table(name) else { return Err(listed.wrong(name, item, expected)) };
    let given = (table.duration("retry")?, table.duration("snooze")?);
    table.finish()?;
    match given {
        (Some(after), None) => Ok(Meaning::RetryAfter(after)),
        (None, Some(after)) => Ok(Meaning::Snooze(after)),
        _ => Err(listed.wrong(name, item, expected)),
    }
}
