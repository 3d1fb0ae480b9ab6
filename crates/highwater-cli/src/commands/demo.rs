//! `highwater demo`

mod frame;
mod lines;
mod named;
mod report;
mod show;

use std::cell::Cell;
use std::io::{self, IsTerminal as _, Write as _};

use clap::Args;
use highwater_demo::{Audience, DemoError, Launch, Plan, Report};
use tokio::signal::unix::{SignalKind, signal};

use self::lines::Lines;
use self::named::Named;
use self::show::Show;
use super::top;
use crate::arguments::Global;
use crate::failure::{Exit, Failure};

const EXAMPLES: &str = "\
Examples:
  highwater demo
  highwater demo --seconds 60 --rate 1000
  highwater demo --keep --database postgres://app@localhost/shop

Exit code 0 says that the books balance, 1 that they do not or that it could not be carried out.";

/// Watch three instances of a shop share the work, lose one, and balance the books
///
/// Orders come in. Two transactional projections, a saga and an e-mail subscriber, spread over three processes, handle
/// them. Half-way the busiest process is killed with SIGKILL, later the e-mails that failed are sent again, and at the end
/// plain SQL checks that every event counts exactly once.
///
/// The shop is in a temporary SQLite file that is removed afterwards, whatever HIGHWATER_DATABASE_URL says. With --database
/// it is in a new file, or on PostgreSQL in a new schema: nothing that is there is touched.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Demo {
    /// For how long orders come in
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(4..=3_600))]
    seconds: u64,
    /// Orders a second; each makes three events
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=20_000))]
    rate: u64,
    /// What the orders follow from: the same number, the same orders
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    seed: u64,
    /// Keep the database, to look at it afterwards
    #[arg(long)]
    keep: bool,
    /// Damage a row before the books are checked: they must notice
    #[arg(long)]
    corrupt: bool,
    #[command(flatten)]
    named: Named,
}

impl Demo {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        if global.json {
            return Err(Failure::usage("the demo is for people; its exit code says whether the books balance"));
        }
        let program = std::env::current_exe();
        let program = program.map_err(|error| Failure::refused(format!("cannot find this program again: {error}")))?;
        let launch = Launch { program, arguments: vec!["demo-instance".into()] };
        let plan = Plan {
            database: self.named.database,
            schema: self.named.schema,
            seconds: self.seconds,
            rate: self.rate,
            seed: self.seed,
            keep: self.keep,
            corrupt: self.corrupt,
        };
        let mut stdout = io::stdout();
        let refused = |error| failure(error, Exit::Interrupted);
        writeln!(stdout, "{}\n", lines::introduction(&plan))?;
        let left = highwater_demo::clear(&plan.place().map_err(refused)?).await.map_err(refused)?;
        left.iter().try_for_each(|left| writeln!(stdout, "{left}"))?;
        stdout.flush()?;
        let seen = see(&plan, &launch).await?;
        report::print(&plan, &seen, global.output())?;
        let wrong: Vec<&str> = seen.books.iter().filter(|book| !book.balances()).map(|book| book.name).collect();
        let wrong = (!wrong.is_empty()).then(|| format!("the books do not balance: {}", wrong.join("; ")));
        let left = seen.left.as_ref().map(|left| format!("the shop is left behind: {left}"));
        let faults: Vec<String> = wrong.into_iter().chain(left).collect();
        match faults.is_empty() {
            true => Ok(()),
            false => Err(Failure::refused(faults.join("; and "))),
        }
    }
}

/// On the screen where there is one, and in lines where there is none.
async fn see(plan: &Plan, launch: &Launch) -> Result<Report, Failure> {
    if io::stdout().is_terminal() && io::stdin().is_terminal() {
        let mut show = Show::begin()?;
        return watch(plan, launch, &mut show, Some(top::keys())).await;
    }
    watch(plan, launch, &mut Lines::default(), None).await
}

/// What the keys of a screen say.
type Keys = tokio::sync::mpsc::Receiver<top::Key>;

/// Runs it until it ends or the user ends it.
async fn watch(
    plan: &Plan,
    launch: &Launch,
    audience: &mut dyn Audience,
    mut keys: Option<Keys>,
) -> Result<Report, Failure> {
    let refused = |error: io::Error| Failure::refused(format!("cannot listen for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(refused)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(refused)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(refused)?;
    let exit = Cell::new(Exit::Interrupted);
    let interrupted = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            () = quit(&mut keys) => {}
            _ = terminate.recv() => exit.set(Exit::Terminated),
            _ = hang_up.recv() => exit.set(Exit::Terminated),
        }
    };
    let seen = highwater_demo::run(plan, launch, audience, interrupted).await;
    seen.map_err(|error| failure(error, exit.get()))
}

/// Waits until the user presses q or Ctrl-C, if there are keys.
async fn quit(keys: &mut Option<Keys>) {
    let Some(keys) = keys else { return std::future::pending().await };
    loop {
        match keys.recv().await {
            Some(top::Key::Quit | top::Key::Interrupt) => return,
            Some(top::Key::Redraw) => {}
            // No keys any more: signals are left.
            None => return std::future::pending().await,
        }
    }
}

/// One instance, as the demo starts it.
pub(super) async fn run_instance() -> Result<(), Failure> {
    highwater_demo::run_instance().await.map_err(|error| failure(error, Exit::Terminated))
}

fn failure(error: DemoError, interrupted: Exit) -> Failure {
    match error {
        DemoError::Interrupted => Failure::silent(interrupted),
        DemoError::Store(error) => error.into(),
        DemoError::Show(error) => error.into(),
        DemoError::Database(_) => Failure::usage(error.to_string()),
        DemoError::Sql { .. } => Failure::new(Exit::Database, error.to_string()),
        error => Failure::refused(error.to_string()),
    }
}
