//! The flags of the comparisons: `peers`, `scale` and `cliffs`.

use std::path::PathBuf;

use super::{Flags, UsageError};
use crate::cliffs::{Case, CliffsPlan};
use crate::peers::{ChildCall, Measure, PeersPlan, System};
use crate::scale::ScalePlan;

pub(super) fn parse_peers(words: &[String]) -> Result<PeersPlan, UsageError> {
    let known = ["--only", "--rounds", "--n", "--seconds", "--json"];
    let mut flags = Flags::parse(words, &["--quick"], &known)?;
    let (rounds, n, seconds) = if flags.switch("--quick") { (2, 50_000, 8) } else { (5, 200_000, 20) };
    let (mut systems, mut measures) = (Vec::new(), Vec::new());
    for name in names(flags.text("--only")) {
        match (System::named(&name), Measure::named(&name)) {
            (Some(system), _) => systems.push(system),
            (None, Some(measure)) => measures.push(measure),
            // Both modes.
            (None, None) if name == "pgmq" => systems.extend([System::PgmqDelete, System::PgmqArchive]),
            (None, None) => {
                let known =
                    System::ALL.map(System::as_str).into_iter().chain(Measure::ALL.map(Measure::as_str));
                return Err(unknown(name, known));
            }
        }
    }
    Ok(PeersPlan {
        rounds: flags.positive("--rounds", rounds)?,
        n: flags.positive("--n", n)?,
        seconds: flags.positive("--seconds", seconds)?,
        systems,
        measures,
        json: flags.text("--json").map(PathBuf::from),
    })
}

/// Called by `peers` and `scale`, not by people.
pub(super) fn parse_child(words: &[String]) -> Result<ChildCall, UsageError> {
    let word = |place: usize| words.get(place).map(String::as_str).unwrap_or_default();
    Ok(ChildCall {
        system: System::named(word(0)).ok_or(UsageError::NoChild { word: "SYSTEM" })?,
        measure: Measure::named(word(1)).ok_or(UsageError::NoChild { word: "MEASURE" })?,
        count: word(2).parse().map_err(|_| UsageError::NoChild { word: "COUNT" })?,
        callers: word(3).parse().map_err(|_| UsageError::NoChild { word: "CALLERS" })?,
    })
}

pub(super) fn parse_scale(words: &[String]) -> Result<ScalePlan, UsageError> {
    let known = ["--n", "--workers", "--connections", "--json"];
    let mut flags = Flags::parse(words, &["--quick", "--without-settings"], &known)?;
    let n = if flags.switch("--quick") { 100_000 } else { 400_000 };
    Ok(ScalePlan {
        n: flags.positive("--n", n)?,
        workers: numbers("--workers", flags.text("--workers"), &[1, 2, 4, 8])?,
        connections: numbers("--connections", flags.text("--connections"), &[2, 4, 8, 16, 32, 64])?,
        has_settings: !flags.switch("--without-settings"),
        json: flags.text("--json").map(PathBuf::from),
    })
}

pub(super) fn parse_cliffs(words: &[String]) -> Result<CliffsPlan, UsageError> {
    let mut flags = Flags::parse(words, &["--quick"], &["--divisor", "--only", "--json"])?;
    let divisor = if flags.switch("--quick") { 10 } else { 1 };
    let cases = names(flags.text("--only"))
        .map(|name| Case::named(&name).ok_or_else(|| unknown(name, Case::ALL.map(Case::as_str))));
    Ok(CliffsPlan {
        only: cases.collect::<Result<_, _>>()?,
        divisor: flags.positive("--divisor", divisor)?,
        json: flags.text("--json").map(PathBuf::from),
    })
}

fn names(list: Option<String>) -> impl Iterator<Item = String> {
    let names: Vec<String> = list.unwrap_or_default().split(',').map(str::to_owned).collect();
    names.into_iter().filter(|name| !name.is_empty())
}

fn unknown(name: String, known: impl IntoIterator<Item = &'static str>) -> UsageError {
    let known: Vec<&str> = known.into_iter().collect();
    UsageError::UnknownName { name, known: known.join(", ") }
}

fn numbers(flag: &str, list: Option<String>, default: &[usize]) -> Result<Vec<usize>, UsageError> {
    let Some(list) = list else { return Ok(default.to_vec()) };
    let parse = |text: &str| {
        let why = "must be whole numbers of at least 1, separated by commas".to_owned();
        let number = text.parse().ok().filter(|&number| number > 0);
        number.ok_or_else(|| UsageError::BadValue { flag: flag.to_owned(), value: list.clone(), why })
    };
    list.split(',').map(parse).collect()
}
