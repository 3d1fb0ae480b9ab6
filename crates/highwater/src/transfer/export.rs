//! Writing everything a store holds as lines of JSON.

use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::check::check_content;
use super::contents::Contents;
use super::digest::{Counts, Digest};
use super::line::{Footer, Header, Line};
use super::{Phase, Step};
use crate::{Backend, Error};

/// The format that is written, and the only one that is read.
pub(super) const VERSION: u32 = 1;

/// What was exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// How many of each.
    pub counts: Counts,
    /// Events up to this one were exported: the last one when it began.
    pub exported_to: u64,
    /// The hash in the last line.
    pub md5: String,
}

/// Writes everything that a store holds, one line of JSON each, in an order that is the same in every store: two stores
/// that hold the same are exported as the same bytes.
///
/// First a header with the format's version, then events in order, checkpoints with their pauses, dead letters with their
/// attempts, open requests, and at last how many there were, with a hash of every byte before.
///
/// As for what happens meanwhile, see [`copy`](super::copy).
///
/// # Errors
/// [`Error::BeingFilled`] for a store whose own filling is not finished; [`Invalid::Event`](crate::Invalid::Event) for one with an
/// event that could not be imported; [`Error::Unavailable`] when it cannot be read or the lines cannot be written.
pub async fn export(
    from: &dyn Backend,
    mut out: impl AsyncWrite + Unpin + Send,
    mut progress: impl FnMut(Step) + Send,
) -> Result<Exported, Error> {
    let source = Contents::of_source(from).await?;
    let mut digest = Digest::default();
    digest.line(&Line::Header(Header {
        version: VERSION,
        frontier: source.frontier,
        events: source.events,
        checkpoints: source.checkpoints.len() as u64,
    }));
    let mut report = |phase, done| progress(Step { phase, done, total: source.events });
    report(Phase::Events, 0);
    let mut next = Some(source.records(0));
    while let Some(fetch) = next.take() {
        let page = fetch.await?;
        for record in &page.items {
            check_content(record)?;
            digest.record(record);
        }
        write(&mut out, &digest.take_lines()).await?;
        report(Phase::Events, digest.counts.events);
        next = page.next;
    }
    report(Phase::Delivery, source.events);
    source.checkpoints.iter().for_each(|checkpoint| digest.checkpoint(checkpoint));
    let mut next = Some(source.dead_letters());
    while let Some(fetch) = next.take() {
        let page = fetch.await?;
        page.items.iter().for_each(|dead_letter| digest.dead_letter(dead_letter));
        write(&mut out, &digest.take_lines()).await?;
        next = page.next;
    }
    let mut next = Some(source.requests());
    while let Some(fetch) = next.take() {
        let page = fetch.await?;
        page.items.iter().for_each(|request| digest.request(request));
        write(&mut out, &digest.take_lines()).await?;
        next = page.next;
    }
    let (counts, md5) = (digest.counts, digest.hash());
    digest.line(&Line::Footer(Footer { counts, md5: md5.clone() }));
    write(&mut out, &digest.take_lines()).await?;
    out.flush().await.map_err(unwritten)?;
    Ok(Exported { counts, exported_to: source.frontier, md5 })
}

async fn write(out: &mut (impl AsyncWrite + Unpin), text: &[u8]) -> Result<(), Error> {
    out.write_all(text).await.map_err(unwritten)
}

fn unwritten(error: std::io::Error) -> Error {
    Error::Unavailable { action: "write the export", source: error.into() }
}
