//! Storing lines: a batch at a time, and one by one where a batch is refused, so that the line can be named.

use std::collections::HashSet;
use std::os::fd::AsFd as _;
use std::time::Duration;

use highwater::{Append, Appended, Backend, Error, ExpectedVersion};
use serde_json::json;

use super::input::{self, Batch};
use super::line::Line;
use crate::arguments::Global;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::words;

/// How often an append is sent that may not have arrived, and how long to wait before the second time.
const SENDS_MAX: u32 = 5;
const SEND_AGAIN: Duration = Duration::from_millis(250);

/// What has been done.
#[derive(Default)]
struct Done {
    stored: u64,
    repeated: u64,
    last: u64,
}

pub(super) async fn run<B: Backend>(store: &B, global: &Global) -> Result<(), Failure> {
    let mut progress = Progress::of_bytes("storing", input_size());
    let mut batches = input::start();
    let (mut done, mut bytes) = (Done::default(), 0);
    while let Some(batch) = batches.recv().await {
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
    async fn store<B: Backend>(&mut self, store: &B, batch: &Batch) -> Result<(), Failure> {
        for lines in together(&batch.lines) {
            match send(store, &append(lines)).await {
                Ok(appended) => self.count(&appended),
                // Nothing of it is stored. Its ids are drawn, so going through it again stores nothing twice.
                Err(_) => {
                    for line in lines {
                        let appended = send(store, &line.append()).await;
                        let appended = appended.map_err(|error| self.stopped(line.number, line.stream.named(error)))?;
                        self.count(&appended);
                    }
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, appended: &Appended) {
        let count = appended.positions.len() as u64;
        if appended.repeated {
            self.repeated += count
        } else {
            self.stored += count
        }
        self.last = self.last.max(appended.global_sequence);
    }

    fn stopped(&self, number: u64, failure: Failure) -> Failure {
        failure.framed(&format!("line {number}: "), &format!("; before it {self}, and nothing from it on"))
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

/// Sends an append, and again when it may not have arrived: its ids make sure that it is stored once.
pub(super) async fn send<B: Backend>(store: &B, append: &Append) -> Result<Appended, Error> {
    let mut pause = SEND_AGAIN;
    for _ in 1..SENDS_MAX {
        match store.append(append).await {
            Err(Error::UnknownOutcome { .. } | Error::Overloaded { .. }) => tokio::time::sleep(pause).await,
            done => return done,
        }
        pause *= 2;
    }
    store.append(append).await
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
}
