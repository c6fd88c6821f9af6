//! Parses the command line. Pure; the error for an unknown flag names it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

mod compared;

use crate::api::ApiPlan;
use crate::cliffs::CliffsPlan;
use crate::commands::CommandsPlan;
use crate::driver::{BulkPlan, DrainPlan, LatencyPlan, Mode, SinglePlan, SteadyPlan};
use crate::forever::ForeverPlan;
use crate::http::HttpPlan;
use crate::neighbour::{self, NeighbourPlan};
use crate::pages::PagesPlan;
use crate::peers::{ChildCall, PeersPlan};
use crate::prune::PrunePlan;
use crate::scale::{self, ScalePlan};
use crate::schedule::SchedulePlan;
use crate::soak::work;

pub(crate) const USAGE: &str = "usage: windlass-bench [--quick|--full] [--json FILE] [--only NAME,…]
       windlass-bench api [--n N] [--callers N] [--history N] [--reads N]   enqueues and reads over HTTP, and memory
       windlass-bench driver MODE [--flag value …]
       windlass-bench commands [--n N] [--concurrency C]   commands compared with a plain spawn loop, and following a log
       windlass-bench http [--n N] [--concurrency C] [--delay-ms MS]   HTTP jobs compared with a plain client
       windlass-bench pages [--jobs N] [--tenants N] [--reads N]       the server time and the size of every page of the UI
       windlass-bench schedule [--triggers N] [--events N]             many fires at one instant, and dispatched events
       windlass-bench neighbour [--seconds S] [--turns N] [--callers N] [--json FILE]   one tenant while another causes load
       windlass-bench forever [--minutes M] [--quick] [--json FILE]   full speed with a short retention, for long
       windlass-bench peers [--quick] [--only NAME,…] [--rounds N] [--n N] [--seconds S] [--json FILE]   beside other queues
       windlass-bench scale [--quick] [--n N] [--workers N,…] [--connections N,…] [--without-settings] [--json FILE]
       windlass-bench cliffs [--quick] [--divisor N] [--only NAME,…] [--json FILE]   queues of unusual shapes
       windlass-bench soak [--minutes N] [--seed S] [--jobs N] [--json FILE]   an installation under load and faults; --help
       windlass-bench prune [--history N] [--rounds N] [--seconds S]   a steady run with and without pruning

  --quick       smaller sizes, the same figures, in less than two minutes
  --full        ten million finished jobs in the history instead of two
  --json FILE   write the figures as one object
  --only NAMES  only these phases: raw, enqueue, drain, steady, pinned, fair, history, latency, wal

  driver modes, on the database of DATABASE_URL; each prints JSON lines:
  info          [uses no database]
  init          [migrates an empty database]
  bulk          --n --callers --batch
  single        --n --callers
  drain         --n --seconds
  steady        --seconds --cap --batch --callers
  latency       --n --callers [ignored]";

#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    Help,
    Suite(SuiteOptions),
    Api(ApiPlan),
    Driver(Mode),
    Commands(CommandsPlan),
    Http(HttpPlan),
    Pages(PagesPlan),
    Schedule(SchedulePlan),
    Prune(PrunePlan),
    Forever(ForeverPlan),
    Peers(PeersPlan),
    PeersChild(ChildCall),
    Scale(ScalePlan),
    ScaleWorker,
    Cliffs(CliffsPlan),
    Neighbour(NeighbourPlan),
    NeighbourLoad,
    /// The words of its own command line.
    Soak(Vec<String>),
    SoakProcess(work::Process),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SuiteOptions {
    pub(crate) size: Size,
    pub(crate) json: Option<PathBuf>,
    /// The phases to run; all if empty.
    pub(crate) only: Vec<Phase>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    Quick,
    Standard,
    Full,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Raw,
    Enqueue,
    Drain,
    Steady,
    Pinned,
    Fair,
    History,
    Latency,
    Wal,
}

impl Phase {
    pub(crate) const ALL: [Self; 9] = [
        Self::Raw,
        Self::Enqueue,
        Self::Drain,
        Self::Steady,
        Self::Pinned,
        Self::Fair,
        Self::History,
        Self::Latency,
        Self::Wal,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Enqueue => "enqueue",
            Self::Drain => "drain",
            Self::Steady => "steady",
            Self::Pinned => "pinned",
            Self::Fair => "fair",
            Self::History => "history",
            Self::Latency => "latency",
            Self::Wal => "wal",
        }
    }
}

#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum UsageError {
    #[error("unknown flag '{flag}'; known here: {known}")]
    UnknownFlag { flag: String, known: String },
    #[error("'{word}' is not expected here")]
    UnexpectedWord { word: String },
    #[error("'{flag}' requires a value")]
    NoValue { flag: String },
    #[error("'{flag}': invalid value '{value}': {why}")]
    BadValue { flag: String, value: String, why: String },
    #[error("'{flag}' is specified twice")]
    Twice { flag: String },
    #[error("'{one}' and '{other}' cannot be combined")]
    Both { one: &'static str, other: &'static str },
    #[error("unknown phase '{name}'")]
    UnknownPhase { name: String },
    #[error("unknown name '{name}'; known here: {known}")]
    UnknownName { name: String, known: String },
    #[error("'{word}' is missing or invalid: peer SYSTEM MEASURE COUNT CALLERS")]
    NoChild { word: &'static str },
    #[error(
        "the process of a soak requires the file of its ledger, and a command its directory of locks, job and attempt"
    )]
    NoLedger,
    #[error("driver requires a mode: info, init, bulk, single, drain, steady or latency")]
    NoMode,
    #[error("unknown driver mode '{mode}'")]
    UnknownMode { mode: String },
}

impl Command {
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, UsageError> {
        let words: Vec<String> = words.collect();
        match words.first().map(String::as_str) {
            Some("help" | "--help" | "-h") => Ok(Self::Help),
            Some("api") => parse_api(&words[1..]).map(Self::Api),
            Some("driver") => parse_mode(&words[1..]).map(Self::Driver),
            Some("commands") => parse_commands(&words[1..]).map(Self::Commands),
            Some("http") => parse_http(&words[1..]).map(Self::Http),
            Some("neighbour") => parse_neighbour(&words[1..]).map(Self::Neighbour),
            Some(neighbour::LOAD) => Ok(Self::NeighbourLoad),
            Some("peers") => compared::parse_peers(&words[1..]).map(Self::Peers),
            Some("peer") => compared::parse_child(&words[1..]).map(Self::PeersChild),
            Some("scale") => compared::parse_scale(&words[1..]).map(Self::Scale),
            Some(scale::WORKER) => Ok(Self::ScaleWorker),
            Some("cliffs") => compared::parse_cliffs(&words[1..]).map(Self::Cliffs),
            Some("soak") => Ok(Self::Soak(words[1..].to_vec())),
            Some(work::rust::PROCESS | work::command::PROCESS) => {
                work::Process::parse(&words).map(Self::SoakProcess).map_err(|_| UsageError::NoLedger)
            }
            Some("prune") => parse_prune(&words[1..]).map(Self::Prune),
            Some("forever") => parse_forever(&words[1..]).map(Self::Forever),
            Some("pages") => parse_pages(&words[1..]).map(Self::Pages),
            Some("schedule") => parse_schedule(&words[1..]).map(Self::Schedule),
            _ => parse_suite(&words).map(Self::Suite),
        }
    }
}

fn parse_commands(words: &[String]) -> Result<CommandsPlan, UsageError> {
    let mut flags = Flags::parse(words, &[], &["--n", "--concurrency"])?;
    Ok(CommandsPlan { n: flags.positive("--n", 5000)?, concurrency: flags.positive("--concurrency", 8)? })
}

fn parse_schedule(words: &[String]) -> Result<SchedulePlan, UsageError> {
    let mut flags = Flags::parse(words, &[], &["--triggers", "--events"])?;
    Ok(SchedulePlan {
        triggers: flags.positive("--triggers", 10_000)?,
        events: flags.positive("--events", 10_000)?,
    })
}

fn parse_prune(words: &[String]) -> Result<PrunePlan, UsageError> {
    let mut flags = Flags::parse(words, &[], &["--history", "--rounds", "--seconds"])?;
    Ok(PrunePlan {
        history: flags.positive("--history", 10_000_000)?,
        rounds: flags.positive("--rounds", 3)?,
        seconds: flags.positive("--seconds", 20)?,
    })
}

fn parse_forever(words: &[String]) -> Result<ForeverPlan, UsageError> {
    let mut flags = Flags::parse(words, &["--quick"], &["--minutes", "--json"])?;
    let minutes = if flags.switch("--quick") { 5 } else { 30 };
    Ok(ForeverPlan {
        minutes: flags.positive("--minutes", minutes)?,
        json: flags.text("--json").map(PathBuf::from),
    })
}

fn parse_neighbour(words: &[String]) -> Result<NeighbourPlan, UsageError> {
    let mut flags = Flags::parse(words, &[], &["--seconds", "--turns", "--callers", "--json"])?;
    Ok(NeighbourPlan {
        seconds: flags.positive("--seconds", 10)?,
        turns: flags.positive("--turns", 5)?,
        callers: flags.positive("--callers", 24)?,
        json: flags.text("--json").map(PathBuf::from),
    })
}

fn parse_http(words: &[String]) -> Result<HttpPlan, UsageError> {
    let mut flags = Flags::parse(words, &[], &["--n", "--concurrency", "--delay-ms"])?;
    Ok(HttpPlan {
        n: flags.positive("--n", 20_000)?,
        concurrency: flags.positive("--concurrency", 64)?,
        delay_ms: flags.number("--delay-ms", 10)?,
    })
}

fn parse_pages(words: &[String]) -> Result<PagesPlan, UsageError> {
    let mut flags = Flags::parse(words, &[], &["--jobs", "--tenants", "--reads"])?;
    Ok(PagesPlan {
        jobs: flags.positive("--jobs", 10_000_000)?,
        tenants: flags.number("--tenants", 100)?,
        reads: flags.positive("--reads", 200)?,
    })
}

fn parse_api(words: &[String]) -> Result<ApiPlan, UsageError> {
    let mut flags = Flags::parse(words, &[], &["--n", "--callers", "--history", "--reads"])?;
    Ok(ApiPlan {
        n: flags.number("--n", 20_000)?,
        callers: flags.positive("--callers", 64)?,
        history: flags.number("--history", 2_000_000)?,
        reads: flags.positive("--reads", 1000)?,
    })
}

fn parse_suite(words: &[String]) -> Result<SuiteOptions, UsageError> {
    let mut flags = Flags::parse(words, &["--quick", "--full"], &["--json", "--only"])?;
    let size = match (flags.switch("--quick"), flags.switch("--full")) {
        (true, true) => return Err(UsageError::Both { one: "--quick", other: "--full" }),
        (true, false) => Size::Quick,
        (false, true) => Size::Full,
        (false, false) => Size::Standard,
    };
    let only = flags.text("--only").unwrap_or_default();
    let only = only.split(',').filter(|name| !name.is_empty()).map(parse_phase).collect::<Result<_, _>>()?;
    Ok(SuiteOptions { size, json: flags.text("--json").map(PathBuf::from), only })
}

fn parse_phase(name: &str) -> Result<Phase, UsageError> {
    let found = Phase::ALL.into_iter().find(|phase| phase.as_str() == name);
    found.ok_or_else(|| UsageError::UnknownPhase { name: name.to_owned() })
}

fn parse_mode(words: &[String]) -> Result<Mode, UsageError> {
    let (mode, words) = words.split_first().ok_or(UsageError::NoMode)?;
    let flags = |known| Flags::parse(words, &[], known);
    Ok(match mode.as_str() {
        "info" => {
            flags(&[])?;
            Mode::Info
        }
        "init" => {
            flags(&[])?;
            Mode::Init
        }
        "bulk" => {
            let mut flags = flags(&["--n", "--callers", "--batch"])?;
            Mode::Bulk(BulkPlan {
                n: flags.number("--n", 100_000)?,
                callers: flags.positive("--callers", 2)?,
                batch: flags.positive("--batch", 1000)?,
            })
        }
        "single" => {
            let mut flags = flags(&["--n", "--callers"])?;
            Mode::Single(SinglePlan {
                n: flags.number("--n", 10_000)?,
                callers: flags.positive("--callers", 32)?,
            })
        }
        "drain" => {
            let mut flags = flags(&["--n", "--seconds"])?;
            Mode::Drain(DrainPlan {
                n: flags.number("--n", 200_000)?,
                seconds: flags.positive("--seconds", 600)?,
            })
        }
        "steady" => {
            let mut flags = flags(&["--seconds", "--cap", "--batch", "--callers"])?;
            Mode::Steady(SteadyPlan {
                seconds: flags.positive("--seconds", 60)?,
                cap: flags.positive("--cap", 20_000)?,
                batch: flags.positive("--batch", 500)?,
                callers: flags.positive("--callers", 2)?,
                at_least: 0,
                most_seconds: u64::MAX,
            })
        }
        "latency" => {
            // Other drivers have callers; this one has one job at a time.
            let mut flags = flags(&["--n", "--callers"])?;
            let _: usize = flags.positive("--callers", 1)?;
            Mode::Latency(LatencyPlan { n: flags.positive("--n", 200)?, ..LatencyPlan::default() })
        }
        other => return Err(UsageError::UnknownMode { mode: other.to_owned() }),
    })
}

/// Flags as given: `--flag value` or `--flag=value`.
struct Flags {
    given: BTreeMap<String, String>,
}

impl Flags {
    fn parse(words: &[String], switches: &[&str], valued: &[&str]) -> Result<Self, UsageError> {
        let mut given = BTreeMap::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (flag, attached) = match word.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            let value = if switches.contains(&flag) && attached.is_none() {
                String::new()
            } else if valued.contains(&flag) {
                let value = attached.or_else(|| words.next().cloned());
                value.ok_or_else(|| UsageError::NoValue { flag: flag.to_owned() })?
            } else if flag.starts_with('-') {
                let known = [switches, valued].concat();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(UsageError::UnknownFlag { flag: word.clone(), known });
            } else {
                return Err(UsageError::UnexpectedWord { word: word.clone() });
            };
            if given.insert(flag.to_owned(), value).is_some() {
                return Err(UsageError::Twice { flag: flag.to_owned() });
            }
        }
        Ok(Self { given })
    }

    fn switch(&mut self, flag: &str) -> bool {
        self.given.remove(flag).is_some()
    }

    fn text(&mut self, flag: &str) -> Option<String> {
        self.given.remove(flag)
    }

    fn number<N: FromStr<Err: ToString>>(&mut self, flag: &str, default: N) -> Result<N, UsageError> {
        let Some(value) = self.given.remove(flag) else { return Ok(default) };
        value.parse().map_err(|error: N::Err| UsageError::BadValue {
            flag: flag.to_owned(),
            value,
            why: error.to_string(),
        })
    }

    fn positive<N: FromStr<Err: ToString> + Default + PartialEq>(
        &mut self,
        flag: &str,
        default: N,
    ) -> Result<N, UsageError> {
        let number = self.number(flag, default)?;
        if number == N::default() {
            let (flag, value, why) = (flag.to_owned(), "0".to_owned(), "must be at least 1".to_owned());
            return Err(UsageError::BadValue { flag, value, why });
        }
        Ok(number)
    }
}

#[cfg(test)]
mod tests;
