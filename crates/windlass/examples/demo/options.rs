//! The command line.

pub(crate) const HELP: &str = "\
usage: demo [--seconds N] [--plain]

Runs a queue with two tenants, a worker and a producer, and shows what happens.

  --seconds N   end by itself after N seconds
  --plain       print lines instead of a live view, as when the output is not a terminal
  --help        this text

With DATABASE_URL set it uses that Postgres (and migrates it); otherwise it starts its own
in .dev/postgres, which keeps its jobs until the next time. Ctrl-C stops it cleanly.
";

pub(crate) struct Options {
    pub(crate) seconds: Option<u64>,
    pub(crate) plain: bool,
}

pub(crate) enum Choice {
    Run(Options),
    Help,
}

pub(crate) fn read(mut arguments: impl Iterator<Item = String>) -> Result<Choice, String> {
    let mut options = Options { seconds: None, plain: false };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--help" | "-h" => return Ok(Choice::Help),
            "--plain" => options.plain = true,
            "--seconds" => {
                let seconds = arguments.next().and_then(|value| value.parse().ok());
                options.seconds = Some(seconds.ok_or("--seconds needs a whole number")?);
            }
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    Ok(Choice::Run(options))
}
