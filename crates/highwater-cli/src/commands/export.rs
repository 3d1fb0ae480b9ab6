//! `highwater export`

mod unfinished;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use highwater::Error;
use highwater::backend::Backend;
use highwater::transfer::{self, Exported};
use serde_json::json;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::signal::unix::{SignalKind, signal};

use self::unfinished::Unfinished;
use crate::arguments::Global;
use crate::failure::{Exit, Failure};
use crate::progress::Progress;
use crate::{reading, words};

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
        let store = global.open().await?;
        let Some(file) = self.file.as_deref().filter(|file| *file != Path::new("-")) else {
            // Nothing but the export itself goes to stdout.
            return to_stdout(&*store).await;
        };
        let exported = to_file(&*store, file).await?;
        let counts = exported.counts;
        let mut out = global.output();
        match global.json {
            true => out.value(&json!({
                "events": counts.events,
                "checkpoints": counts.checkpoints,
                "dead_letters": counts.dead_letters,
                "requests": counts.requests,
                "global_sequence": exported.exported_to,
                "md5": exported.md5,
            }))?,
            false => out.line(&format!("exported {}", words::contents(&counts)))?,
        }
        out.finish()
    }
}

/// Under its name there is all of it or nothing.
async fn to_file(store: &dyn Backend, path: &Path) -> Result<Exported, Failure> {
    let mut file = Unfinished::beside(path).await?;
    let written = async {
        let exported = write(store, &mut file.file).await?;
        file.publish().await?;
        Ok(exported)
    };
    let written = unless_interrupted(written).await;
    file.remove().await;
    written
}

async fn to_stdout(store: &dyn Backend) -> Result<(), Failure> {
    let mut stdout = tokio::io::stdout();
    write(store, &mut stdout).await?;
    Ok(stdout.flush().await?)
}

async fn write(store: &dyn Backend, out: impl AsyncWrite + Unpin + Send) -> Result<Exported, Failure> {
    let (mut progress, begun) = (Progress::of_transfer(), AtomicBool::new(false));
    let export = transfer::export(store, out, |step| {
        begun.store(true, Ordering::Relaxed);
        progress.step(step);
    });
    reading::saying_who_is_waited_for(store, &begun, export).await.map_err(closed)
}

/// An interrupted export leaves nothing behind.
async fn unless_interrupted<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let refused = |error: io::Error| Failure::refused(format!("cannot listen for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(refused)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(refused)?;
    tokio::select! {
        done = work => done,
        _ = interrupt.recv() => Err(Failure::silent(Exit::Interrupted)),
        _ = terminate.recv() => Err(Failure::silent(Exit::Terminated)),
    }
}

/// The reader may stop reading.
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
