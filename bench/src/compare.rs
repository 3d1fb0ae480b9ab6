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
mod process;
mod progress;
mod ratios;
mod results;
mod safety;
#[cfg(test)]
mod sample;
mod sizes;
pub(crate) mod stores;
mod table;

use std::path::{Path, PathBuf};
use std::time::Instant;

use contest::Contest;
use entrants::Field;
use progress::Progress;
use results::{Results, Row, Scenario};
use sizes::Sizes;

use crate::Error;
use crate::options::Options;
use crate::server::Server;

/// Where everything of this is, from the folder that `bench/run` goes to.
const PEERS: &str = "bench/peers";
const RESULTS: &str = "bench/results";
const DOCUMENT: &str = "docs/performance.md";

/// What else can be asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Wishes {
    /// An earlier run to compare with.
    pub(crate) baseline: Option<PathBuf>,
    /// These scenarios only, by their letters.
    pub(crate) only: Option<String>,
    /// Whether `docs/performance.md` gets the table of this run.
    pub(crate) write_docs: bool,
}

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    let wishes = &options.wishes;
    // Read first: nobody wants to hear after half an hour that there is no such file.
    let baseline = wishes.baseline.as_deref().map(file::read).transpose()?;
    let field = Field::gather(Path::new(PEERS), |what| eprintln!("{what}")).await?;
    let mut sizes = if options.quick { Sizes::quick() } else { Sizes::full() };
    if let Some(only) = &wishes.only {
        sizes.scenarios = Sizes::full().scenarios;
        sizes.scenarios.retain(|letter| only.to_uppercase().contains(letter));
    }
    let server = Server::start(options).await?;
    let results = measure(&server, field, sizes, options.quick).await?;
    let file = file::write(&results, Path::new(RESULTS))?;
    let page = file::write_page(&results, &page::render(&results, baseline.as_ref()), Path::new(RESULTS))?;
    if wishes.write_docs {
        performance::update(&results, Path::new(DOCUMENT))?;
    }
    eprintln!("written: {} and {}", file.display(), page.display());
    table::print(&results, baseline.as_ref())?;
    match ratios::trouble(&results.scenarios, &results.ratios) {
        Some(trouble) => Err(trouble.into()),
        None => Ok(()),
    }
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
    };
    let (id, title) = (letter.to_string(), "could not be measured".to_owned());
    Scenario { id, title, sizes: String::new(), rows: vec![row] }
}

async fn measure(server: &Server, field: Field, sizes: Sizes, quick: bool) -> Result<Results, Error> {
    let (began, date, commit) = (Instant::now(), machine::date(), machine::commit());
    let progress = Progress::new(sizes.steps(&field));
    let mut contest = Contest::new(server, &field, sizes, progress).await?;
    let mut machine = machine::gather(&contest.admin).await?;
    let mut scenarios: Vec<Scenario> = Vec::new();
    for letter in contest.sizes.scenarios.clone().chars() {
        let scenario = match letter {
            'A' => appends::one(&mut contest).await,
            'B' => appends::many(&mut contest).await,
            'C' => appends::load(&mut contest).await,
            'D' => catchup::run(&mut contest).await,
            'E' => live::run(&mut contest).await,
            'F' => failover::run(&mut contest).await,
            'G' => safety::run(&mut contest).await,
            _ => growth::run(&mut contest).await,
        };
        scenarios.push(scenario.unwrap_or_else(|error| failed(letter, &*error)));
    }
    machine.commit_micros.1 = machine::commit_micros(&contest.admin).await?;
    contest.progress.finish();
    let ratios = ratios::of(&scenarios, &field);
    let seconds = began.elapsed().as_secs_f64();
    Ok(Results { date, commit, quick, seconds, machine, contestants: field.contestants, scenarios, ratios })
}
