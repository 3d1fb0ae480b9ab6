//! Whether a database was named for the demo itself.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command, FromArgMatches};

/// The database and the schema of the command line. Those of the environment do not count: they are where the user's real
/// events are.
#[derive(Debug, Default)]
pub(super) struct Named {
    pub(super) database: Option<String>,
    pub(super) schema: Option<String>,
}

/// Adds no arguments: it looks at those that every command has.
impl clap::Args for Named {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for Named {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let named = |name| match matches.value_source(name) {
            Some(ValueSource::CommandLine) => matches.get_one::<String>(name).cloned(),
            _ => None,
        };
        Ok(Self { database: named("database"), schema: named("schema") })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
