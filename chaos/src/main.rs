//! The experiment's command line: see README.md.

mod alone;
mod arguments;
mod report;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser as _;
use highwater::BoxError;
use highwater_chaos::instance;
use highwater_chaos::run::Setting;
use highwater_chaos::schedule::Schedule;
use highwater_chaos::shrink::{self, TRIES};
use highwater_chaos::totals::Totals;
use tokio::signal::unix::{SignalKind, signal};

use arguments::{Arguments, Mode};
use report::Run;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.mode {
        Some(Mode::Instance) => serve().await.map(|()| true),
        Some(Mode::Figures { ref folders }) => Totals::read(folders).map(|totals| {
            print!("{totals}");
            true
        }),
        None => tokio::select! {
            done = experiment(arguments) => done,
            () = interrupted() => Err("interrupted; everything that was started ends with it".into()),
        },
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("chaos: {}", highwater::backend::chain(&*error));
            ExitCode::from(2)
        }
    }
}

/// Ctrl-C or SIGTERM. In processes of its own this is the first one, which gets only the signals it listens to.
async fn interrupted() {
    match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(mut interrupt), Ok(mut terminate)) => tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        },
        _ => std::future::pending().await,
    }
}

async fn serve() -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    instance::run().await
}

/// Whether every promise was held.
async fn experiment(arguments: Arguments) -> Result<bool, BoxError> {
    let private = alone::ensure()?;
    if let Some(file) = &arguments.shrink {
        return shorten(&arguments, Schedule::load(file)?, private).await;
    }
    if let Some(file) = &arguments.replay {
        return once(&arguments, Schedule::load(file)?, private, "-replay").await.map(|run| run.is_held());
    }
    let (started, mut seed, mut held, mut runs) = (Instant::now(), arguments.seed(), true, 0);
    let all = arguments.hours.map_or(Duration::ZERO, |hours| Duration::from_secs_f64(hours * 3_600.0));
    loop {
        // One that could not be made does not end the night.
        held &= match once(&arguments, arguments.draw(seed), private, "").await {
            Ok(run) => run.is_held(),
            Err(error) if arguments.hours.is_some() => {
                eprintln!("chaos: seed {seed} could not be run: {error}");
                false
            }
            Err(error) => return Err(error),
        };
        runs += 1;
        if started.elapsed() >= all {
            break;
        }
        seed += 1;
    }
    if runs > 1 {
        let end = if held { "every promise was held" } else { "promises were broken: see above" };
        println!("{runs} runs in {} minutes: {end}", started.elapsed().as_secs() / 60);
    }
    Ok(held)
}

async fn once(arguments: &Arguments, schedule: Schedule, private: bool, purpose: &str) -> Result<Run, BoxError> {
    let folder = arguments.folder(&schedule, purpose)?;
    let setting = arguments.setting(schedule, folder, private)?;
    println!(
        "seed {} on {:?}: {} instances, {} faults in {} steps",
        setting.schedule.seed,
        setting.schedule.store,
        setting.schedule.instances,
        setting.schedule.faults(),
        setting.schedule.steps.len()
    );
    Run::make(&setting).await
}

/// Says what a shorter schedule is that breaks one of the promises that this one breaks.
async fn shorten(arguments: &Arguments, schedule: Schedule, private: bool) -> Result<bool, BoxError> {
    let started = Instant::now();
    // Real processes do not do the same thing twice: which of several promises is broken is a matter of chance, too.
    let mut broken = BTreeSet::new();
    for _ in 0..TRIES {
        broken = once(arguments, schedule.clone(), private, "-shrink").await?.broken();
        if !broken.is_empty() {
            break;
        }
    }
    if broken.is_empty() {
        println!("this schedule broke nothing in {TRIES} runs: retry");
        return Ok(true);
    }
    let limit = Duration::from_secs_f64(arguments.minutes * 60.0).saturating_sub(started.elapsed());
    let breaks = |schedule: Schedule| {
        let wanted = broken.clone();
        async move {
            let (faults, steps) = (schedule.faults(), schedule.steps.len());
            let folder = arguments.folder(&schedule, "-try")?;
            let setting: Setting = Setting { quiet: true, ..arguments.setting(schedule, folder, private)? };
            let found = Run::attempt(&setting).await?.broken();
            let told = if found.is_empty() { "nothing".to_owned() } else { Vec::from_iter(found.clone()).join(", ") };
            println!("[{:>4} s] {faults} faults in {steps} steps: broke {told}", started.elapsed().as_secs());
            Ok(!wanted.is_disjoint(&found))
        }
    };
    let shortest = shrink::shrink(&schedule, limit, breaks).await?;
    let file = arguments.out.join(format!("shrunk-{}.json", schedule.seed));
    shortest.save(&file)?;
    println!("{shortest}\n{} faults instead of {}: {}", shortest.faults(), schedule.faults(), file.display());
    Ok(false)
}
