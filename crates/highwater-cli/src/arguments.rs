//! The command line.

use clap::{Args, Parser};

use crate::commands::Command;
use crate::database::{Store, Target};
use crate::failure::Failure;
use crate::output::Output;

/// How the command ends, for `--help`, the man page and readers of this file.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    refused, or it failed
  2    arguments or input that cannot be used
  3    the database cannot be reached, opened or used
  4    there is no such subscriber, dead letter or stream
  5    conflict: the stream is not at the expected version, or an event id is taken
  130  interrupted by Ctrl-C
  141  the reader of the output stopped reading
  143  ended by SIGTERM

Start here:
  highwater init
  highwater append order/17 Placed '{\"cents\":1299}'
  highwater events

Passwords are better kept in HIGHWATER_DATABASE_URL than on the command line, where other users may see them.";

/// From which length on a password is looked for in what is printed. No error of ours quotes one: this is for others'.
pub(crate) const SECRET_BYTES_MIN: usize = 4;

/// Look at event stores, operate them and try them out.
#[derive(Debug, Parser)]
#[command(name = "highwater", version, after_help = EXIT_CODES, disable_help_subcommand = true)]
#[command(max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// The event store: sqlite:FILE or postgres://USER@HOST/DATABASE
    #[arg(long, global = true, value_name = "URL", env = "HIGHWATER_DATABASE_URL", hide_env_values = true)]
    #[arg(default_value = "sqlite:highwater.db", help_heading = "Everywhere")]
    database: String,
    /// The schema that everything lives in, on PostgreSQL
    #[arg(long, global = true, value_name = "NAME", env = "HIGHWATER_SCHEMA", default_value = "highwater")]
    #[arg(hide_env_values = true, help_heading = "Everywhere")]
    schema: String,
    /// Use an SQLite file on a network file system, where acknowledged events may be lost
    #[arg(long, global = true, help_heading = "Everywhere")]
    force_network_file_system: bool,
    /// Print JSON: one value a line
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,
}

impl Global {
    /// The store that was named.
    pub(crate) fn target(&self) -> Result<Target, Failure> {
        self.target_of(&self.database)
    }

    /// Another store, with the same schema.
    pub(crate) fn target_of(&self, url: &str) -> Result<Target, Failure> {
        self.target_in(url, &self.schema)
    }

    /// Another store, with another schema.
    pub(crate) fn target_in(&self, url: &str, schema: &str) -> Result<Target, Failure> {
        Target::parse(url, schema, self.force_network_file_system)
    }

    /// Opens the store that was named, which must be there and up to date.
    pub(crate) async fn open(&self) -> Result<Store, Failure> {
        self.target()?.open().await
    }

    pub(crate) fn output(&self) -> Output {
        Output::new(self.json)
    }
}

impl Cli {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        self.command.run(&self.global).await
    }

    /// What must not be printed, whatever an error may quote.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let urls = std::iter::once(self.global.database.as_str()).chain(self.command.urls());
        // A password of a few letters is a part of many words.
        urls.flat_map(crate::database::passwords).filter(|password| password.len() >= SECRET_BYTES_MIN).collect()
    }
}

#[cfg(test)]
mod hostile;

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Cli;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
