//! The command line of the soak.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::Result;

/// Runs a whole installation of windlass under load and faults, and proves that nothing was lost.
///
/// Real processes (two servers, three keepers, six workers of four kinds) run on a Postgres of their own. Callers enqueue in every way
/// and use every feature; operators cancel, retry and delete; meanwhile processes are killed and frozen, the network is cut, Postgres
/// crashes, the disk is full, tables are locked, and windlass is installed again. A ledger outside of the database records every
/// acknowledgment, start and end. When everything has ended, a checker compares it with the database and prints one table.
///
/// The exit code is 0 if there is no violation and 1 if there is one; the shortest trace of one violating job is printed with the seed.
#[derive(Debug, Clone, PartialEq, Parser)]
#[command(
    name = "soak",
    bin_name = "./dev soak",
    after_help = "Examples:\n  ./dev soak                                   # 10 minutes, another seed each time\n  \
    ./dev soak --minutes 60 --jobs 3000000       # a long run, on a fast machine\n  \
    ./dev soak --minutes 2 --seed 7              # repeats the faults of an earlier run\n  \
    ./dev soak --previous target/old/windlass    # servers, keepers and workers change between two builds\n\n\
    A full disk and the own file system of the data need root. docs/soak.md explains how to read the table."
)]
pub(crate) struct SoakPlan {
    /// How long load and faults last, in minutes; starting and checking need about one more
    #[arg(long, value_name = "N", default_value = "10", value_parser = positive)]
    pub(crate) minutes: f64,

    /// The seed of the faults and of the load; the same seed repeats the same sequence of faults [default: a random one]
    #[arg(long, value_name = "N", default_value_t = rand::random::<u32>().into(), hide_default_value = true)]
    pub(crate) seed: u64,

    /// How many jobs are enqueued in that time; fewer if the machine is too slow [default: 3000 for each minute]
    #[arg(long, value_name = "N", default_value = "0", hide_default_value = true)]
    pub(crate) jobs: u64,

    /// Write the figures as one JSON object
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// The program `windlass` of the previous commit: servers, keepers and workers are upgraded and downgraded while they run
    #[arg(long, value_name = "BINARY")]
    pub(crate) previous: Option<PathBuf>,

    /// Keep the ledgers and logs, which are always kept after a violation
    #[arg(long)]
    pub(crate) keep: bool,

    /// Of the checkout that this program was built from, when the run starts.
    #[arg(skip = commit())]
    pub(crate) commit: String,
}

const JOBS_PER_MINUTE: f64 = 3000.0;

impl SoakPlan {
    /// Prints the help or the error, and returns the exit code, if there is nothing to run.
    pub(crate) fn parse_words(words: &[String]) -> Result<Self, clap::Error> {
        let words = std::iter::once("soak").chain(words.iter().map(String::as_str));
        let mut plan = Self::try_parse_from(words)?;
        if plan.jobs == 0 {
            plan.jobs = (plan.minutes * JOBS_PER_MINUTE) as u64;
        }
        Ok(plan)
    }

    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.minutes * 60.0)
    }

    /// The program next to this one.
    pub(crate) fn windlass(&self) -> Result<PathBuf> {
        let path = std::env::current_exe()?.with_file_name("windlass");
        if path.exists() {
            Ok(path)
        } else {
            Err(format!("{} does not exist: build windlass-server too", path.display()).into())
        }
    }
}

fn commit() -> String {
    let output = std::process::Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "--short=8", "HEAD"])
        .output();
    match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(minutes) if minutes > 0.0 && minutes <= 10_000.0 => Ok(minutes),
        _ => Err("must be a number of minutes above 0, at most 10000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::SoakPlan;

    fn parse(words: &[&str]) -> Result<SoakPlan, clap::Error> {
        SoakPlan::parse_words(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_defaults_are_ten_minutes_and_three_thousand_jobs_each() {
        let plan = parse(&[]).unwrap();
        assert_eq!((plan.minutes, plan.jobs, plan.json), (10.0, 30_000, None));
        assert_eq!(parse(&["--minutes", "2"]).unwrap().jobs, 6000);
        assert_eq!(parse(&["--jobs", "5", "--seed", "7"]).unwrap().seed, 7);
    }

    #[test]
    fn an_error_names_the_flag() {
        for words in [["--minutes", "0"], ["--seed", "x"], ["--speed", "1"]] {
            assert!(parse(&words).unwrap_err().to_string().contains(words[0]), "{words:?}");
        }
    }
}
