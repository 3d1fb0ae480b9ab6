//! Storing lines: a batch at a time, and one by one where a batch is refused, so that the line can be named.

use std::collections::HashSet;
use std::os::fd::AsFd as _;
use std::time::Duration;

use highwater::backend::{Backend, Backoff};
use highwater::{Append, Appended, Error, ExpectedVersion};
use serde_json::json;

use super::input::{self, Batch};
use super::kinds::Kinds;
use super::line::Line;
use super::streams::Streams;
use super::versions::Versions;
use crate::arguments::Global;
use crate::failure::{Exit, Failure, note};
use crate::progress::Progress;
use crate::words;

/// How often an append is sent that may not have arrived.
const SENDS_MAX: u32 = 5;
/// How long to wait before it is sent again: at first, and at most.
const SEND_AGAIN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));

/// What has been done.
#[derive(Default)]
struct Done {
    stored: u64,
    repeated: u64,
    last: u64,
    streams: Streams,
    kinds: Kinds,
    versions: Versions,
}

pub(super) async fn run(store: &dyn Backend, global: &Global) -> Result<(), Failure> {
    let mut progress = Progress::of_bytes("storing", input_size());
    let mut batches = input::start();
    let (mut done, mut bytes) = (Done::default(), 0);
    while let Some(mut batch) = batches.recv().await {
        done.settle(store, &mut batch).await?;
        done.store(store, &batch).await?;
        bytes += batch.bytes;
        progress.at(bytes);
        if let Some((number, why)) = batch.bad {
            return Err(done.stopped(number, Failure::usage(why)));
        }
    }
    drop(progress);
    let mut out = global.output();
    if global.json {
        let last = (done.last > 0).then_some(done.last);
        out.value(&json!({ "stored": done.stored, "repeated": done.repeated, "global_sequence": last }))?;
    } else {
        out.line(&done.to_string())?;
    }
    out.finish()
}

impl Done {
    /// Which streams the lines mean, and which schema versions they are stored with.
    async fn settle(&mut self, store: &dyn Backend, batch: &mut Batch) -> Result<(), Failure> {
        let settled = self.streams.settle(store, &mut batch.lines).await;
        settled.map_err(|(number, failure)| self.stopped(number, failure))?;
        for line in &mut batch.lines {
            let settled = self.versions.settle(store, &mut line.record).await;
            line.newer = settled.map_err(|failure| self.stopped(line.number, failure))?;
            line.mixed = self.kinds.settle(store, &line.record).await;
        }
        Ok(())
    }

    async fn store(&mut self, store: &dyn Backend, batch: &Batch) -> Result<(), Failure> {
        for lines in together(&batch.lines) {
            match send(store, &append(lines)).await {
                Ok(appended) => self.count(lines, &appended),
                Err(unsent) if unsent.unknown => return Err(self.lost(lines, unsent.error.into())),
                // Nothing of it is stored. Its ids are drawn, so going through it again stores nothing twice.
                Err(_) => self.one_by_one(store, lines).await?,
            }
        }
        Ok(())
    }

    async fn one_by_one(&mut self, store: &dyn Backend, lines: &[Line]) -> Result<(), Failure> {
        for line in lines {
            match send(store, &line.append()).await {
                Ok(appended) => self.count(std::slice::from_ref(line), &appended),
                Err(unsent) if unsent.unknown => {
                    return Err(self.lost(std::slice::from_ref(line), line.stream.named(unsent.error)));
                }
                Err(unsent) => return Err(self.stopped(line.number, line.stream.named(unsent.error))),
            }
        }
        Ok(())
    }

    fn count(&mut self, lines: &[Line], appended: &Appended) {
        let count = appended.positions.len() as u64;
        if appended.repeated {
            self.repeated += count;
        } else {
            self.stored += count;
            for line in lines {
                if let Some(newest) = line.newer {
                    self.versions.warn(&format!("line {}: ", line.number), &line.record, newest);
                }
                if let Some(mixed) = &line.mixed {
                    note(&format!("line {}: {mixed}", line.number));
                }
            }
        }
        self.last = self.last.max(appended.global_sequence);
    }

    fn stopped(&self, number: u64, failure: Failure) -> Failure {
        failure.framed(&format!("line {number}: "), &format!("; before it {self}, and nothing from it on"))
    }

    /// What was sent and never answered may be there. It is stored whole or not at all.
    fn lost(&self, lines: &[Line], failure: Failure) -> Failure {
        let (first, last) = (lines.first().map_or(0, |line| line.number), lines.last().map_or(0, |line| line.number));
        let which = if first == last { format!("line {first}") } else { format!("lines {first}–{last}") };
        let look = self.last;
        let after = format!(
            "; {which} may or may not be stored, all or none of them; before that {self}, and nothing after it; lines with \
             ids can be sent again, from line {first} on; whether those without are there, `highwater events --since {look}` \
             shows"
        );
        failure.framed(&format!("{which}: "), &after).because(Exit::Database)
    }
}

impl std::fmt::Display for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verb = if self.stored == 1 { "was" } else { "were" };
        write!(f, "{} {verb} stored", words::count(self.stored, "event"))?;
        if self.repeated > 0 {
            write!(f, ", {} had been before", words::number(self.repeated))?;
        }
        if self.last > 0 {
            write!(f, ", the last at {}", words::number(self.last))?;
        }
        Ok(())
    }
}

/// Parts of a batch that can be one append: that makes one claim about a stream, before its first event.
fn together(lines: &[Line]) -> Vec<&[Line]> {
    let (mut parts, mut from) = (Vec::new(), 0);
    let mut streams = HashSet::new();
    for (index, line) in lines.iter().enumerate() {
        let known = !streams.insert(line.record.stream_id);
        if known && line.expected != ExpectedVersion::Any {
            parts.push(&lines[from..index]);
            from = index;
            streams = HashSet::from([line.record.stream_id]);
        }
    }
    parts.push(&lines[from..]);
    parts.retain(|part| !part.is_empty());
    parts
}

fn append(lines: &[Line]) -> Append {
    let mut append = Append::to(lines[0].record.stream_id);
    for line in lines {
        append = append.record(line.record.clone());
        if line.expected != ExpectedVersion::Any {
            append = append.expecting(line.expected);
        }
    }
    append
}

/// Why an append was not stored, or not known to be.
#[derive(Debug)]
pub(super) struct Unsent {
    pub(super) error: Error,
    /// Whether it may be stored nevertheless: it was sent once without an answer, and the outcome is still unknown.
    pub(super) unknown: bool,
}

/// Sends an append, and again when it may not have arrived: its ids make sure that it is stored once.
pub(super) async fn send(store: &dyn Backend, append: &Append) -> Result<Appended, Unsent> {
    insist(Backoff::new(SEND_AGAIN.0, SEND_AGAIN.1), async || store.append(append).await).await
}

async fn insist<T>(mut pause: Backoff, mut send: impl AsyncFnMut() -> Result<T, Error>) -> Result<T, Unsent> {
    let (mut sends, mut unknown) = (0, false);
    loop {
        let error = match send().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        sends += 1;
        unknown |= matches!(error, Error::UnknownOutcome { .. });
        // A comparison with what is stored would have found it.
        if is_answer(&error) {
            return Err(Unsent { error, unknown: false });
        }
        let again = unknown || matches!(error, Error::Overloaded { .. });
        if !again || sends >= SENDS_MAX {
            return Err(Unsent { error, unknown });
        }
        tokio::time::sleep(pause.next_delay()).await;
    }
}

/// Whether an append was examined, and refused.
fn is_answer(error: &Error) -> bool {
    matches!(error, Error::Conflict { .. } | Error::IdTaken { .. } | Error::PartlyStored { .. } | Error::Invalid(_))
}

/// How large the input is, if it is a file.
fn input_size() -> Option<u64> {
    let file = std::fs::File::from(std::io::stdin().as_fd().try_clone_to_owned().ok()?);
    file.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_about_a_stream_that_is_in_the_batch_already_begins_another() {
        let line = |number, stream: &str, expected: &str| {
            let line = format!(r#"{{"stream":"s/{stream}","type":"T","expected":{expected}}}"#);
            Line::parse(number, line.as_bytes()).unwrap()
        };
        let any = r#""any""#;
        let lines = [line(1, "a", "0"), line(2, "b", any), line(3, "a", any), line(4, "a", "2"), line(5, "b", "1")];
        let parts: Vec<Vec<u64>> =
            together(&lines).iter().map(|part| part.iter().map(|line| line.number).collect()).collect();
        assert_eq!(parts, [vec![1, 2, 3], vec![4, 5]]);
        assert!(together(&[]).is_empty());
    }

    fn lost() -> Error {
        Error::UnknownOutcome { source: "the connection was lost".into() }
    }

    fn away() -> Error {
        Error::Unavailable { action: "append", source: "connection refused".into() }
    }

    async fn sent(answers: Vec<Result<u64, Error>>) -> (Result<u64, Unsent>, usize) {
        let mut left = answers.into_iter();
        let done =
            insist(Backoff::new(Duration::ZERO, Duration::ZERO), async || left.next().unwrap_or_else(|| Err(away())))
                .await;
        (done, left.len())
    }

    #[tokio::test]
    async fn once_an_answer_was_lost_it_stays_unknown_until_the_store_knows() {
        assert!(matches!(sent(vec![Err(lost()), Err(away()), Ok(7)]).await, (Ok(7), 0)));
        let (unsent, _) = sent(vec![Err(lost())]).await;
        assert!(matches!(unsent, Err(Unsent { error: Error::Unavailable { .. }, unknown: true })), "{unsent:?}");
        let nil = uuid::Uuid::nil();
        let taken = Error::IdTaken {
            event_id: nil,
            stream_id: nil,
            stream_name: None,
            stream_version: 1,
            differs_in: "payload",
        };
        let (unsent, _) = sent(vec![Err(lost()), Err(taken)]).await;
        assert!(matches!(unsent, Err(Unsent { error: Error::IdTaken { .. }, unknown: false })), "{unsent:?}");
        let (unsent, left) = sent(vec![Err(away()), Ok(7)]).await;
        assert!(matches!(unsent, Err(Unsent { unknown: false, .. })), "{unsent:?}");
        assert_eq!(left, 1, "what did not arrive is not sent again without being asked to");
    }

    #[test]
    fn lines_without_an_answer_are_named_with_how_to_continue() {
        let line = |number| Line::parse(number, br#"{"stream":"a/b","type":"T"}"#).unwrap();
        let done = Done { stored: 3, last: 12, ..Done::default() };
        let said = done.lost(&[line(4), line(9)], away().into()).to_string();
        for part in ["lines 4–9 may or may not be stored", "from line 4 on", "highwater events --since 12"] {
            assert!(said.contains(part), "{said}");
        }
    }
}
