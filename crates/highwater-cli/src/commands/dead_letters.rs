//! `highwater dead-letters`

mod choice;
mod discard;
mod list;
mod replay;
mod show;

use clap::Subcommand;

use crate::arguments::Global;
use crate::failure::Failure;

/// Work on dead letters: events that a subscriber failed to handle
#[derive(Debug, Subcommand)]
pub(crate) enum DeadLetters {
    List(list::List),
    Show(show::Show),
    Replay(replay::Replay),
    Discard(discard::Discard),
}

impl DeadLetters {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        match self {
            Self::List(command) => command.run(global).await,
            Self::Show(command) => command.run(global).await,
            Self::Replay(command) => command.run(global).await,
            Self::Discard(command) => command.run(global).await,
        }
    }
}
