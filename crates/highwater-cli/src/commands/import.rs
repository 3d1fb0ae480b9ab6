//! `highwater import`

use std::path::{Path, PathBuf};

use clap::Args;
use highwater::backend::Backend;
use highwater::transfer::{self, Imported};
use serde_json::json;
use tokio::io::{AsyncBufRead, BufReader};

use super::copy;
use crate::arguments::Global;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::words;

/// How much is read at once.
const BUFFER_BYTES: usize = 256 << 10;

const EXAMPLES: &str = "\
Examples:
  highwater import shop.ndjson --database sqlite:copy.db
  gunzip -c shop.ndjson.gz | highwater import --database postgres://app@db/shop
  highwater import --abandon";

/// Make a store of what `highwater export` wrote
///
/// The store must be empty; it is made where there is none. Everything gets the same ids, versions and positions. When
/// anything is wrong with the lines, the line is named and nothing stays behind.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Import {
    /// The file; without it, or with -, lines are read from stdin
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Empty and open a store again whose import was killed
    #[arg(long, conflicts_with = "file")]
    abandon: bool,
}

impl Import {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        if self.abandon {
            let store = global.open().await?;
            return copy::abandon(&*store, global).await;
        }
        let imported = match self.file.as_deref().filter(|file| *file != Path::new("-")) {
            Some(path) => {
                let opened = tokio::fs::File::open(path).await;
                let file =
                    opened.map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
                import(BufReader::with_capacity(BUFFER_BYTES, file), global).await?
            }
            None => import(BufReader::with_capacity(BUFFER_BYTES, tokio::io::stdin()), global).await?,
        };
        let counts = imported.counts;
        let mut out = global.output();
        match global.json {
            true => out.value(&json!({
                "events": counts.events,
                "checkpoints": counts.checkpoints,
                "dead_letters": counts.dead_letters,
                "requests": counts.requests,
                "global_sequence": imported.imported_to,
            }))?,
            false => {
                out.line(&format!("imported {}", words::contents(&counts)))?;
                if let Some(said) = words::read_models(&counts) {
                    out.line(said)?;
                }
            }
        }
        out.finish()
    }
}

async fn import(input: impl AsyncBufRead + Unpin + Send, global: &Global) -> Result<Imported, Failure> {
    let store = global.target()?.open_new().await?;
    from(&*store, input).await
}

async fn from(store: &dyn Backend, input: impl AsyncBufRead + Unpin + Send) -> Result<Imported, Failure> {
    let mut progress = Progress::of_transfer();
    Ok(transfer::import(store, input, |step| progress.step(step)).await?)
}
