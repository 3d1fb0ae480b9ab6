//! `highwater man`

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};

use crate::arguments::{Cli, Global};
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  highwater man | man -l -
  highwater man /usr/local/share/man/man1";

/// Print the manual page, or write one for each command into a folder
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Man {
    /// The folder; without it the page of `highwater` itself is printed
    folder: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(&self, global: &Global) -> Result<(), Failure> {
        let mut out = global.output();
        match &self.folder {
            Some(folder) => {
                let written = clap_mangen::generate_to(Cli::command(), folder);
                let folder = folder.display();
                written.map_err(|error| Failure::refused(format!("cannot write manual pages to {folder}: {error}")))?;
                out.line(&format!("wrote the manual pages to {folder}"))?;
            }
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(Cli::command()).render(&mut page)?;
                out.bytes(&page)?;
            }
        }
        out.finish()
    }
}
