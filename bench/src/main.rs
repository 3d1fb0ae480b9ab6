//! `bench SCENARIO [--rounds N] [--seconds S] [--quick]`: Highwater beside what PostgreSQL can do without it.
//!
//! `bench/run` builds and starts this. Both sides run in one process and one runtime, on one server, by turns; where
//! another process is what matters, it is this program once more (see `child.rs`). The last line on standard output is one
//! JSON object; progress goes to standard error.

mod append;
mod callers;
mod catchup;
mod child;
mod clock;
mod compare;
mod failover;
mod flow;
mod json;
mod latency;
mod load;
mod memory;
mod options;
mod payload;
mod proc;
mod raw;
mod read;
mod report;
mod rounds;
mod server;
mod sqlite;
mod stores;
mod subscribers;

use std::process::ExitCode;

use options::{Options, Scenario};
use report::Report;
use server::Server;

/// Whatever goes wrong ends the run: a figure from half a run is worth nothing.
type Error = Box<dyn std::error::Error + Send + Sync>;

// As the shell has them: wrong arguments, and the end by Ctrl-C.
const USAGE: u8 = 2;
const INTERRUPTED: u8 = 130;

#[tokio::main(flavor = "multi_thread")]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(outcome) = child::run(&args).await {
        return ended(outcome);
    }
    if let Some(code) = compare::stores::run(&args).await {
        return code;
    }
    let options = match Options::parse(args.into_iter()) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("bench: {problem}");
            return ExitCode::from(USAGE);
        }
    };
    // Not left to the signal alone: the server and its folder go when `run` is dropped.
    let outcome = tokio::select! {
        outcome = run(&options) => outcome,
        _ = tokio::signal::ctrl_c() => return ExitCode::from(INTERRUPTED),
    };
    ended(outcome)
}

fn ended(outcome: Result<(), Error>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &Options) -> Result<(), Error> {
    let report = match options.scenario {
        Scenario::Compare => return compare::run(options).await,
        Scenario::Sqlite => sqlite::run(options).await?,
        scenario => on_postgres(scenario, options).await?,
    };
    print!("{report}");
    println!("{}", report.json()?);
    Ok(())
}

async fn on_postgres(scenario: Scenario, options: &Options) -> Result<Report, Error> {
    let server = Server::start(options).await?;
    match scenario {
        Scenario::Append => append::run(&server, options).await,
        Scenario::Read => read::run(&server, options).await,
        Scenario::CatchUp => catchup::run(&server, options).await,
        Scenario::Latency => latency::run(&server, options).await,
        Scenario::Subscribers => subscribers::run(&server, options).await,
        Scenario::Memory => memory::run(&server, options).await,
        Scenario::Failover => failover::run(&server, options).await,
        Scenario::Stores => stores::run(&server, options).await,
        Scenario::Sqlite | Scenario::Compare => Err("this has a server of its own, or none".into()),
    }
}
