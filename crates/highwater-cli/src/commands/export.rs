//! `highwater export`

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use highwater::transfer::{self, Exported};
use highwater::{Backend, Error};
use serde_json::json;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use crate::arguments::Global;
use crate::database::with;
use crate::failure::{Exit, Failure, note};
use crate::progress::Progress;
use crate::words;

const EXAMPLES: &str = "\
Examples:
  highwater export shop.ndjson
  highwater export | gzip > shop.ndjson.gz";

/// Write everything that a store holds, as lines of JSON
///
/// Events with their ids, versions, positions and metadata, checkpoints, pauses, dead letters and open requests.
/// `highwater import` makes the same store of it. Events are taken up to the last one that is there when it begins.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Export {
    /// A new file; without it, or with -, they are printed
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

impl Export {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        let database = global.open().await?;
        let exported = with!(database, store => match self.file.as_deref().filter(|file| *file != Path::new("-")) {
            Some(file) => to_file(&store, file).await,
            None => to_stdout(&store).await,
        })?;
        let counts = exported.counts;
        if self.file.is_none() {
            return Ok(());
        }
        let mut out = global.output();
        match global.json {
            true => out.value(&json!({
                "events": counts.events,
                "checkpoints": counts.checkpoints,
                "dead_letters": counts.letters,
                "requests": counts.requests,
                "global_sequence": exported.exported_to,
                "md5": exported.md5,
            }))?,
            false => out.line(&format!("exported {}", words::contents(&counts)))?,
        }
        out.finish()
    }
}

async fn to_file<B: Backend>(store: &B, path: &Path) -> Result<Exported, Failure> {
    let shown = path.display();
    let refused = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::refused(format!("{shown} is there already; name a new file")),
        _ => Failure::refused(format!("cannot write {shown}: {error}")),
    };
    let mut file = tokio::fs::File::create_new(path).await.map_err(refused)?;
    let written = write(store, &mut file).await;
    let written = match written {
        Ok(exported) => file.sync_all().await.map(|()| exported).map_err(refused),
        Err(failure) => Err(failure),
    };
    // Half of an export is of no use to anybody.
    if written.is_err()
        && let Err(error) = tokio::fs::remove_file(path).await
    {
        note(&format!("what was written of {shown} could not be removed: {error}"));
    }
    written
}

async fn to_stdout<B: Backend>(store: &B) -> Result<Exported, Failure> {
    let mut stdout = tokio::io::stdout();
    let exported = write(store, &mut stdout).await?;
    stdout.flush().await?;
    Ok(exported)
}

async fn write<B: Backend>(store: &B, out: impl AsyncWrite + Unpin + Send) -> Result<Exported, Failure> {
    let mut progress = Progress::of_transfer();
    transfer::export(store, out, |step| progress.step(step)).await.map_err(closed)
}

/// Whoever reads may stop reading.
fn closed(error: Error) -> Failure {
    match &error {
        Error::Unavailable { action: "write the export", source }
            if source.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) =>
        {
            Failure::silent(Exit::ClosedPipe)
        }
        _ => error.into(),
    }
}
