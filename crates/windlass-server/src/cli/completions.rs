//! `windlass completions`.

use std::io::{self, Write};

use clap::Args;
use clap_complete::Shell;

use super::exit::{Exit, Failure};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass completions bash > /etc/bash_completion.d/windlass\n  \
    windlass completions fish > ~/.config/fish/completions/windlass.fish")]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        // Into memory first: the generator panics if its output is closed.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::tree(), "windlass", &mut script);
        io::stdout().write_all(&script)?;
        Ok(Exit::Success)
    }
}
