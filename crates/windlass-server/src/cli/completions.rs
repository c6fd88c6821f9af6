//! `windlass completions`.

use std::io;

use clap::Args;
use clap_complete::Shell;

use super::exit::{Exit, Failure};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass completions bash > /etc/bash_completion.d/windlass\n  \
    windlass completions fish > ~/.config/fish/completions/windlass.fish")]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        clap_complete::generate(self.shell, &mut super::tree(), "windlass", &mut io::stdout());
        Ok(Exit::Success)
    }
}
