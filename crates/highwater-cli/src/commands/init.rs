//! `highwater init`

use clap::Args;
use highwater::backend::Backend;
use serde_json::json;

use crate::arguments::Global;
use crate::database::Target;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  highwater init
  highwater init --check --database postgres://app@db/shop";

/// Create an event store, or bring it up to date
///
/// May be run any number of times, also while applications run. On PostgreSQL the role must own the schema, or be allowed
/// to create it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Init {
    /// Only say what would be done
    #[arg(long)]
    check: bool,
}

impl Init {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        let target = global.target()?;
        if self.check && target.is_missing().await {
            return nothing_there(&target, global);
        }
        let store = target.open_as_it_is(!self.check).await?;
        self.on(&*store, &target, global).await
    }

    async fn on(&self, store: &dyn Backend, target: &Target, global: &Global) -> Result<(), Failure> {
        let planned = store.planned().await?;
        if !self.check {
            store.initialize().await?;
        }
        let mut out = global.output();
        if global.json {
            let steps: Vec<_> = planned
                .iter()
                .map(|step| json!({ "version": step.version, "name": step.name, "does": step.does }))
                .collect();
            let done = if self.check { "planned" } else { "done" };
            out.value(&json!({ "store": target.to_string(), done: steps }))?;
            return out.finish();
        }
        match (planned.is_empty(), self.check) {
            (true, _) => out.line(&format!("{target} is up to date"))?,
            (false, true) => out.line(&format!("{target} is not up to date; `highwater init` would"))?,
            (false, false) => out.line(&format!("{target} is ready"))?,
        }
        for step in planned {
            out.line(&format!("  {} {}: {}", step.version, step.name, step.does))?;
        }
        out.finish()
    }
}

/// A file that is not there cannot be asked, and looking must not make it.
fn nothing_there(target: &Target, global: &Global) -> Result<(), Failure> {
    let mut out = global.output();
    match global.json {
        true => out.value(&json!({ "store": target.to_string(), "missing": true }))?,
        false => out.line(&format!("there is no {target}; `highwater init` would make it"))?,
    }
    out.finish()
}
