//! A run, what the checker says of it, and what is written down about that.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use highwater::BoxError;
use highwater_chaos::check::check;
use highwater_chaos::evidence::Violation;
use highwater_chaos::page::page;
use highwater_chaos::run::{Setting, run};
use highwater_chaos::schedule::Schedule;
use highwater_chaos::summary::{self, Summary};

/// What a busy machine may be the reason of.
const LATE: [&str; 2] = ["G26", "run"];

/// What came of a run.
pub(crate) struct Run {
    violations: Vec<Violation>,
}

impl Run {
    /// Makes a run, checks it, says what came of it and writes the report.
    pub(crate) async fn make(setting: &Setting) -> Result<Self, BoxError> {
        let (evidence, taken) = run(setting).await?;
        let violations = check(&evidence);
        let (folder, seed) = (&setting.folder, taken.seed);
        let (backend, instances) = (format!("{:?}", taken.store).to_lowercase(), taken.instances);
        let summary = Summary::new(summary::Setting { seed, backend, instances }, &evidence, &violations);
        taken.save(&folder.join("schedule.json"))?;
        fs::write(folder.join("summary.json"), serde_json::to_vec_pretty(&summary)?)?;
        fs::write(folder.join("report.html"), page(seed, &evidence, &summary, &violations))?;
        println!("{summary}");
        if let Some(first) = violations.first() {
            fs::write(folder.join("evidence.json"), serde_json::to_vec(&evidence)?)?;
            say_broken(&taken, first, violations.len(), folder);
        } else {
            // What shows that nothing was lost is not needed any more.
            tidy(folder, &["report.html", "schedule.json", "summary.json"])?;
            println!("every promise was held: {}", folder.join("report.html").display());
        }
        Ok(Self { violations })
    }

    /// The same, and leaves nothing behind: one of many that are made to find a shorter one.
    pub(crate) async fn attempt(setting: &Setting) -> Result<Self, BoxError> {
        let (evidence, _) = run(setting).await?;
        tidy(&setting.folder, &[])?;
        Ok(Self { violations: check(&evidence) })
    }

    pub(crate) fn is_held(&self) -> bool {
        self.violations.is_empty()
    }

    /// The numbers of the promises that were broken. That an instance was late, or ended, counts only where nothing worse
    /// is the matter: a machine that is busy is late with any schedule.
    pub(crate) fn broken(&self) -> BTreeSet<String> {
        let all = self.violations.iter().map(|violation| violation.guarantee.clone());
        let (late, grave): (BTreeSet<_>, BTreeSet<_>) = all.partition(|number| LATE.contains(&number.as_str()));
        if grave.is_empty() { late } else { grave }
    }
}

/// Removes what is not needed any more. Folders stay: a disk ends with the namespace that it is mounted in.
fn tidy(folder: &Path, needed: &[&str]) -> Result<(), BoxError> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_needed = path.file_name().is_some_and(|name| needed.iter().any(|needed| name == *needed));
        if !is_needed && !path.is_dir() {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn say_broken(taken: &Schedule, first: &Violation, count: usize, folder: &Path) {
    println!("BROKEN: {}: {}", first.guarantee, first.what);
    first.evidence.iter().for_each(|line| println!("    {line}"));
    if count > 1 {
        println!("    and {} more: see the report", count - 1);
    }
    println!("seed {}; what was done:\n{taken}", taken.seed);
    println!("report:   {}", folder.join("report.html").display());
    println!("repeat:   chaos/run --replay {}", folder.join("schedule.json").display());
    println!("shorten:  chaos/run --shrink {}", folder.join("schedule.json").display());
}
