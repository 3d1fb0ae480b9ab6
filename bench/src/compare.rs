//! Side by side: Highwater, the raw limit and the peers, in one run.
//!
//! Every contestant is a process that is asked for the same things (`bench/driver`), on one server, by turns.

mod appends;
mod baseline;
mod catchup;
mod contest;
mod entrants;
mod failover;
mod figures;
mod file;
mod grid;
mod growth;
mod live;
mod machine;
mod page;
mod performance;
mod place;
mod process;
mod progress;
mod ratios;
mod readme;
mod results;
mod safety;
#[cfg(test)]
mod sample;
mod sizes;
pub(crate) mod stores;
mod table;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use contest::Contest;
use entrants::Field;
use results::{Calls, Results, Row, Scenario};
use sizes::Sizes;

use crate::Error;
use crate::options::Options;
use crate::server::{Server, connect};

/// Where everything of this is, from the folder that `bench/run` goes to.
const PEERS: &str = "bench/peers";
const RESULTS: &str = "bench/results";
const DOCUMENT: &str = "docs/performance.md";
const README: &str = "README.md";

/// What else can be asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CompareOptions {
    /// An earlier run to compare with.
    pub(crate) baseline: Option<PathBuf>,
    /// These scenarios only, by their letters.
    pub(crate) only: Option<String>,
    /// Whether `docs/performance.md` and `README.md` get the tables of this run.
    pub(crate) write_docs: bool,
    /// How many minutes it may take instead.
    pub(crate) minutes: Option<f64>,
    /// Nothing is measured: what an earlier run found is shown and written.
    pub(crate) from: Option<PathBuf>,
}

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    let compare = &options.compare;
    // Read first: nobody wants to hear after half an hour that there is no such file.
    let baseline = compare.baseline.as_deref().map(file::read).transpose()?;
    let results = match &compare.from {
        Some(earlier) => file::read(earlier)?,
        None => measured(options).await?,
    };
    let page = file::write_page(&results, &page::render(&results, baseline.as_ref()), Path::new(RESULTS))?;
    if compare.write_docs {
        performance::update(&results, Path::new(DOCUMENT))?;
        readme::update(&results, Path::new(README))?;
    }
    eprintln!("written: {}, and {} beside it", page.display(), page.with_extension("json").display());
    table::print(&results, baseline.as_ref())?;
    match ratios::trouble(&results.scenarios, &results.ratios) {
        Some(trouble) => Err(trouble.into()),
        None => Ok(()),
    }
}

async fn measured(options: &Options) -> Result<Results, Error> {
    let field = Field::gather(Path::new(PEERS), |what| eprintln!("{what}")).await?;
    let mut sizes = if options.quick { Sizes::quick() } else { Sizes::full() };
    if let Some(only) = &options.compare.only {
        sizes.scenarios = Sizes::full().scenarios;
        sizes.scenarios.retain(|letter| only.to_uppercase().contains(letter));
    }
    if let Some(minutes) = options.compare.minutes {
        sizes.budget = Duration::from_secs_f64(minutes * 60.0);
    }
    let server = Server::start(options).await?;
    let results = measure(&server, field, sizes, options.quick).await?;
    file::write(&results, Path::new(RESULTS))?;
    Ok(results)
}

/// A scenario that could not be carried out. The others count all the same; the run ends with an error.
fn failed(letter: char, error: &(dyn std::error::Error + Send + Sync)) -> Scenario {
    let row = Row {
        case: "all".to_owned(),
        contestant: stores::HIGHWATER.to_owned(),
        unit: "events".to_owned(),
        higher_is_better: true,
        samples: Vec::new(),
        note: Some(format!("failed: {error}")),
        distribution: Vec::new(),
        at: None,
        calls: Calls::default(),
    };
    let (id, title) = (letter.to_string(), "could not be measured".to_owned());
    Scenario { id, title, sizes: String::new(), rows: vec![row] }
}

async fn measure(server: &Server, field: Field, sizes: Sizes, quick: bool) -> Result<Results, Error> {
    let (began, date, commit) = (Instant::now(), machine::date(), machine::commit());
    let (contestants, machine) = (field.contestants(), machine::gather(&connect(server.url()).await?).await?);
    let (scenarios, ratios) = (Vec::new(), Vec::new());
    let start = Results { date, commit, quick, seconds: 0.0, complete: false, machine, contestants, scenarios, ratios };
    let so_far = start.clone();
    let keep = move |scenarios: &[Scenario]| {
        let (ratios, seconds) = (ratios::of(scenarios, &so_far.contestants), began.elapsed().as_secs_f64());
        let results = Results { ratios, seconds, scenarios: scenarios.to_vec(), ..so_far.clone() };
        file::write(&results, Path::new(RESULTS)).map(drop)
    };
    let mut contest = Contest::new(server, field, sizes, Box::new(keep)).await?;
    let mut appended = false;
    for letter in contest.sizes.scenarios.clone().chars() {
        let scenarios = match letter {
            // These three share what time there is.
            'A' | 'B' | 'C' if appended => continue,
            'A' | 'B' | 'C' => {
                appended = true;
                appends::run(&mut contest).await
            }
            'D' => catchup::run(&mut contest).await,
            'E' => live::run(&mut contest).await.map(|scenario| vec![scenario]),
            'F' => failover::run(&mut contest).await.map(|scenario| vec![scenario]),
            'G' => safety::run(&mut contest).await.map(|scenario| vec![scenario]),
            _ => growth::run(&mut contest).await.map(|scenario| vec![scenario]),
        };
        contest.done.extend(scenarios.unwrap_or_else(|error| vec![failed(letter, &*error)]));
        contest.keep(&[])?;
    }
    contest.clear().await?;
    let mut machine = start.machine.clone();
    machine.commit_micros.1 = machine::commit_micros(&contest.admin).await?;
    let Contest { field, progress, done: mut scenarios, .. } = contest;
    progress.finish();
    scenarios.sort_by(|a, b| a.id.cmp(&b.id));
    let contestants = field.contestants();
    let (ratios, seconds) = (ratios::of(&scenarios, &contestants), began.elapsed().as_secs_f64());
    Ok(Results { seconds, complete: true, machine, contestants, scenarios, ratios, ..start })
}
