//! The command `highwater`: to look at event stores, to operate them and to try them out.
//!
//! One file a command in `commands/`; what they share stands beside this file. The library does all the work: there is no
//! SQL here, and nothing that an application could not do as well.

mod arguments;
mod commands;
mod database;
mod failure;
mod output;
mod progress;
mod reading;
mod record;
mod requests;
mod stream;
mod table;
mod terminal;
mod times;
mod usage;
mod words;

use std::process::ExitCode;

use clap::Parser as _;

use crate::arguments::Cli;
use crate::failure::Failure;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(failure::on_panic));
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::end(&error),
    };
    let secrets = cli.secrets();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::refused(format!("cannot start: {error}")).end(&secrets),
    };
    let done = runtime.block_on(cli.run());
    // Whatever still waits for input is not waited for.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.end(&secrets),
    }
}
