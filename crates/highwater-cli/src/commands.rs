//! The commands, one a file.

mod append;
mod backup;
mod checkpoint;
mod completions;
mod copy;
mod dead_letters;
mod demo;
mod doctor;
mod events;
mod export;
mod import;
mod init;
mod man;
mod new;
mod pause;
mod read;
mod rebuild;
mod status;
mod streams;
mod subscribers;
mod tail;
mod top;
mod why;

use clap::Subcommand;

use crate::arguments::Global;
use crate::failure::Failure;

/// What can be asked for.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    New(new::New),
    Init(init::Init),
    Append(append::Append),
    Read(read::Read),
    Streams(streams::Streams),
    Events(events::Events),
    Tail(tail::Tail),
    Status(status::Status),
    Why(why::Why),
    Top(top::Top),
    #[command(subcommand)]
    DeadLetters(dead_letters::DeadLetters),
    #[command(subcommand)]
    Checkpoint(checkpoint::Checkpoint),
    Rebuild(rebuild::Rebuild),
    #[command(subcommand)]
    Subscribers(subscribers::Subscribers),
    Pause(pause::Pause),
    Resume(pause::Resume),
    Export(export::Export),
    Import(import::Import),
    Copy(copy::Copy),
    Backup(backup::Backup),
    Doctor(doctor::Doctor),
    Demo(demo::Demo),
    #[command(hide = true)]
    DemoInstance,
    Completions(completions::Completions),
    Man(man::Man),
}

impl Command {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        match self {
            Self::New(command) => command.run(global),
            Self::Init(command) => command.run(global).await,
            Self::Append(command) => command.run(global).await,
            Self::Read(command) => command.run(global).await,
            Self::Streams(command) => command.run(global).await,
            Self::Events(command) => command.run(global).await,
            Self::Tail(command) => command.run(global).await,
            Self::Status(command) => command.run(global).await,
            Self::Why(command) => command.run(global).await,
            Self::Top(command) => command.run(global).await,
            Self::DeadLetters(command) => command.run(global).await,
            Self::Checkpoint(command) => command.run(global).await,
            Self::Rebuild(command) => command.run(global).await,
            Self::Subscribers(command) => command.run(global).await,
            Self::Pause(command) => command.run(global).await,
            Self::Resume(command) => command.run(global).await,
            Self::Export(command) => command.run(global).await,
            Self::Import(command) => command.run(global).await,
            Self::Copy(command) => command.run(global).await,
            Self::Backup(command) => command.run(global).await,
            Self::Doctor(command) => command.run(global).await,
            Self::Demo(command) => command.run(global).await,
            Self::DemoInstance => demo::run_instance().await,
            Self::Completions(command) => command.run(global),
            Self::Man(command) => command.run(global),
        }
    }

    /// URLs beside the one that every command has.
    pub(crate) fn urls(&self) -> impl Iterator<Item = &str> {
        let copy = if let Self::Copy(copy) = self { Some(copy) } else { None };
        copy.into_iter().flat_map(copy::Copy::urls)
    }
}
