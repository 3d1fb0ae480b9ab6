//! `highwater copy`

use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use highwater::Error;
use highwater::backend::Backend;
use highwater::transfer::{self, Copied, TransferError};
use serde_json::json;

use crate::arguments::Global;
use crate::failure::{Failure, note};
use crate::progress::Progress;
use crate::{reading, words};

const EXAMPLES: &str = "\
Examples:
  highwater copy sqlite:highwater.db postgres://app@db/shop
  highwater copy postgres://app@db/shop sqlite:copy.db
  highwater copy --abandon sqlite:copy.db";

/// Copy a whole store into an empty one, and compare both
///
/// Every event with its id, version, position and metadata, checkpoints, pauses, dead letters and open requests, between any
/// two backends. The copy is made where there is none, and nobody else can write to it until it is complete and has been
/// compared. When it is interrupted, the same command resumes it.
///
/// Events are copied up to the last one that is there when it begins. Stop the subscribers of the first store before, and its
/// writers too if the copy is to replace it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Copy {
    /// The store to copy; with --abandon, the copy to give up
    #[arg(value_name = "FROM")]
    from: String,
    /// The store to fill
    #[arg(value_name = "TO", required_unless_present = "abandon")]
    to: Option<String>,
    /// The schema of the copy, on PostgreSQL. Default: that of --schema
    #[arg(long, value_name = "NAME")]
    to_schema: Option<String>,
    /// Empty and open a store again that was being filled
    #[arg(long, conflicts_with = "to")]
    abandon: bool,
}

impl Copy {
    /// The stores that are named.
    pub(super) fn urls(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.from.as_str()).chain(self.to.as_deref())
    }

    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        let from = global.target_of(&self.from)?;
        let Some(to) = &self.to else {
            let store = from.open().await?;
            return abandon(&*store, global).await;
        };
        let to = match &self.to_schema {
            Some(schema) => global.target_in(to, schema)?,
            None => global.target_of(to)?,
        };
        if from.is_same(&to) {
            return Err(Failure::usage("a store cannot be copied into itself"));
        }
        let source = from.open().await?;
        let target = to.open_new().await?;
        let name = from.to_string();
        let copied = copy(&*source, &name, &*target).await?;
        let mut out = global.output();
        let counts = copied.counts;
        match global.json {
            true => out.value(&json!({
                "events": counts.events,
                "checkpoints": counts.checkpoints,
                "dead_letters": counts.dead_letters,
                "requests": counts.requests,
                "global_sequence": copied.copied_to,
                "resumed_after": copied.resumed_after,
                "source_head": copied.source_head,
            }))?,
            false => {
                if copied.resumed_after > 0 {
                    out.line(&format!("resumed after {}", words::number(copied.resumed_after)))?;
                }
                out.line(&format!("copied {} to {to}; both are the same", words::contents(&counts)))?;
                if let Some(said) = words::read_models(&counts) {
                    out.line(said)?;
                }
            }
        }
        out.finish()?;
        if copied.source_head > copied.copied_to {
            let (at, end) = (words::number(copied.copied_to), words::number(copied.source_head));
            note(&format!("{from} has grown meanwhile: the copy ends at {at}, and it is at {end}"));
        }
        Ok(())
    }
}

async fn copy(from: &dyn Backend, name: &str, to: &dyn Backend) -> Result<Copied, Failure> {
    let (mut progress, begun) = (Progress::of_transfer(), AtomicBool::new(false));
    let copy = transfer::copy(from, name, to, |step| {
        begun.store(true, Ordering::Relaxed);
        progress.step(step);
    });
    match reading::saying_who_is_waited_for(from, &begun, copy).await {
        Ok(copied) => Ok(copied),
        Err(error) => Err(explained(error, name, to).await),
    }
}

/// Why a copy failed, and what becomes of what was copied.
async fn explained(error: Error, name: &str, to: &dyn Backend) -> Failure {
    match &error {
        Error::BeingFilled { .. } => {
            // The same copy is refused only while another process makes it.
            let filling = to.filling().await.ok().flatten();
            match filling.filter(|filling| filling.source.starts_with(&format!("{name} ("))) {
                Some(filling) => Failure::refused(format!(
                    "another process copies {name} there at this moment, since {}: wait for that one, or end it and run this \
                     again",
                    words::time(filling.since)
                )),
                None => error.into(),
            }
        }
        Error::Transfer(TransferError::NotEmpty { .. }) | Error::Transfer(TransferError::CopyDiffers { .. }) => error.into(),
        _ if error.is_retryable() || matches!(error, Error::Interrupted { .. }) => {
            Failure::from(error).framed("", "; what was copied is kept, and the same command resumes it")
        }
        _ => Failure::from(error).framed(
            "",
            "; what was copied is kept: when that is fixed the same command resumes it, and `highwater copy --abandon` with \
             the store that was to be filled gives it up",
        ),
    }
}

/// Abandons a filling that no process works on.
pub(super) async fn abandon(store: &dyn Backend, global: &Global) -> Result<(), Failure> {
    let abandoned = store.abandon().await?;
    let mut out = global.output();
    match (global.json, abandoned) {
        (true, _) => out.value(&json!({ "abandoned": abandoned }))?,
        (false, true) => out.line("it is empty and open again")?,
        (false, false) => out.line("nothing was being filled in")?,
    }
    out.finish()
}
