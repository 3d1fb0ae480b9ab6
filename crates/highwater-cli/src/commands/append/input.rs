//! Reading lines in batches: as many as are there, up to a limit, so that no line waits for a batch to fill.

use std::io::{self, BufRead, BufReader, Read};

use tokio::sync::mpsc;

use super::line::Line;

/// Events in a batch.
const BATCH_EVENTS_MAX: usize = 1_000;
/// Bytes in a batch, unless one line has more.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Bytes in a line: an event may have a megabyte, and escapes make it longer.
const LINE_BYTES_MAX: usize = 8 << 20;
/// Batches that wait to be stored.
const BATCHES_MAX: usize = 2;

/// Lines that belong together because they were there together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) lines: Vec<Line>,
    /// How much of the input this is.
    pub(super) bytes: u64,
    /// What is wrong with the line that follows; there are no more after it.
    pub(super) bad: Option<(u64, String)>,
}

/// Reads stdin on a dedicated thread, since reading cannot be interrupted.
pub(super) fn start() -> mpsc::Receiver<Batch> {
    let (sender, receiver) = mpsc::channel(BATCHES_MAX);
    std::thread::spawn(move || {
        let mut input = BufReader::with_capacity(256 << 10, io::stdin());
        let mut number = 0;
        while let Some(batch) = batch(&mut input, &mut number) {
            let last = batch.bad.is_some();
            // No more lines are taken once something could not be stored.
            if sender.blocking_send(batch).is_err() || last {
                break;
            }
        }
    });
    receiver
}

/// The next batch; `None` at the end of the input.
fn batch<R: Read>(input: &mut BufReader<R>, number: &mut u64) -> Option<Batch> {
    let mut batch = Batch::default();
    let mut line = Vec::new();
    while batch.lines.len() < BATCH_EVENTS_MAX && batch.bytes < BATCH_BYTES_MAX as u64 {
        // Only the first line of a batch is waited for.
        if batch.bytes > 0 && !input.buffer().contains(&b'\n') {
            break;
        }
        line.clear();
        *number += 1;
        let read = input.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line);
        batch.bad = match read {
            Ok(0) => break,
            Ok(bytes) => {
                batch.bytes += bytes as u64;
                if bytes > LINE_BYTES_MAX {
                    Some((*number, format!("it has more than {LINE_BYTES_MAX} bytes")))
                } else if line.trim_ascii().is_empty() {
                    None
                } else {
                    Line::parse(*number, line.trim_ascii())
                        .map(|line| batch.lines.push(line))
                        .err()
                        .map(|why| (*number, why))
                }
            }
            Err(error) => Some((*number, format!("it cannot be read: {error}"))),
        };
        if batch.bad.is_some() {
            break;
        }
    }
    (batch.bytes > 0 || batch.bad.is_some()).then_some(batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(text: &str) -> Vec<Batch> {
        let (mut input, mut number) = (BufReader::with_capacity(256, text.as_bytes()), 0);
        std::iter::from_fn(|| batch(&mut input, &mut number)).take(100).collect()
    }

    #[test]
    fn lines_are_numbered_from_one_and_empty_ones_count() {
        let line = r#"{"stream":"a/b","type":"T"}"#;
        let batches = batches(&format!("{line}\n\n{line}\n{line}"));
        let numbers: Vec<_> = batches.iter().flat_map(|batch| &batch.lines).map(|line| line.number).collect();
        assert_eq!(numbers, [1, 3, 4]);
        assert_eq!(batches.iter().map(|batch| batch.bytes).sum::<u64>(), 3 * line.len() as u64 + 3);
    }

    #[test]
    fn a_bad_line_is_named_and_ends_the_batch_before_it() {
        let line = r#"{"stream":"a/b","type":"T"}"#;
        let batches = batches(&format!("{line}\nnonsense\n{line}\n"));
        assert_eq!(batches[0].lines.len(), 1);
        assert_eq!(batches[0].bad.as_ref().map(|(number, _)| *number), Some(2));
    }
}
