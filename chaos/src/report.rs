//! A run, what the checker says of it, and what is written down about that.

use std::fs;
use std::path::Path;

use highwater::BoxError;
use highwater_chaos::check::check;
use highwater_chaos::evidence::Violation;
use highwater_chaos::page::page;
use highwater_chaos::run::{Setting, run};
use highwater_chaos::schedule::Schedule;
use highwater_chaos::summary::{self, Summary};

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
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                match path.file_name().and_then(|name| name.to_str()) {
                    Some("report.html" | "schedule.json" | "summary.json") => {}
                    // A disk, which ends with the namespace that it is mounted in.
                    _ if path.is_dir() => {}
                    _ => fs::remove_file(path)?,
                }
            }
            println!("every promise was held: {}", folder.join("report.html").display());
        }
        Ok(Self { violations })
    }

    pub(crate) fn is_held(&self) -> bool {
        self.violations.is_empty()
    }

    /// The number of the first promise that was broken.
    pub(crate) fn first_broken(&self) -> Option<String> {
        self.violations.first().map(|violation| violation.guarantee.clone())
    }
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
