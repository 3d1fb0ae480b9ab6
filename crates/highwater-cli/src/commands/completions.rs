//! `highwater completions`

use clap::{Args, CommandFactory as _, ValueEnum};

use crate::arguments::{Cli, Global};
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  highwater completions bash > /etc/bash_completion.d/highwater
  highwater completions zsh > \"${fpath[1]}/_highwater\"
  highwater completions fish > ~/.config/fish/completions/highwater.fish";

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// For which shell
    shell: Shell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Completions {
    pub(crate) fn run(&self, global: &Global) -> Result<(), Failure> {
        let shell = match self.shell {
            Shell::Bash => clap_complete::Shell::Bash,
            Shell::Zsh => clap_complete::Shell::Zsh,
            Shell::Fish => clap_complete::Shell::Fish,
        };
        // Into memory first: the generator panics when it cannot write.
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "highwater", &mut script);
        let mut out = global.output();
        out.bytes(&script)?;
        out.finish()
    }
}
