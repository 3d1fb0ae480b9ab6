//! A hash over lines, and how many there were of each kind.

use md5::{Digest as _, Md5};
use serde::{Deserialize, Serialize};

use super::line::{DeadLetterLine, EventLine, Line, RequestLine};
use super::{Batch, FilledCheckpoint};
use crate::{DeadLetterDetail, Record, Request};

/// How many of each there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Events.
    pub events: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// Open requests.
    pub requests: u64,
}

/// Lines, counted and hashed. It guards against damage and mistakes, not against malice.
#[derive(Default)]
pub(super) struct Digest {
    hash: Md5,
    pub(super) counts: Counts,
    /// The lines that have not been taken yet.
    text: Vec<u8>,
}

impl Digest {
    pub(super) fn batch(&mut self, batch: Batch<'_>) {
        match batch {
            Batch::Records(records) => records.iter().for_each(|record| self.record(record)),
            Batch::Checkpoints(checkpoints) => checkpoints.iter().for_each(|checkpoint| self.checkpoint(checkpoint)),
            Batch::DeadLetters(dead_letters) => dead_letters.iter().for_each(|detail| self.dead_letter(detail)),
            Batch::Requests(requests) => requests.iter().for_each(|request| self.request(request)),
        }
        self.take_lines();
    }

    pub(super) fn record(&mut self, record: &Record) {
        self.counts.events += 1;
        self.line(&Line::Event(EventLine::new(record)));
    }

    pub(super) fn checkpoint(&mut self, checkpoint: &FilledCheckpoint) {
        self.counts.checkpoints += 1;
        self.line(&Line::Checkpoint(std::borrow::Cow::Borrowed(checkpoint)));
    }

    pub(super) fn dead_letter(&mut self, dead_letter: &DeadLetterDetail) {
        self.counts.dead_letters += 1;
        self.line(&Line::DeadLetter(DeadLetterLine::new(dead_letter)));
    }

    pub(super) fn request(&mut self, request: &Request) {
        self.counts.requests += 1;
        self.line(&Line::Request(RequestLine::new(request)));
    }

    pub(super) fn line(&mut self, line: &Line<'_>) {
        let from = self.text.len();
        line.write(&mut self.text);
        self.hash.update(&self.text[from..]);
    }

    /// Bytes that were lines elsewhere.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
    }

    /// The lines since the last time.
    pub(super) fn take_lines(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.text)
    }

    /// The hash of everything so far.
    pub(super) fn hash(&self) -> String {
        let hash: [u8; 16] = self.hash.clone().finalize().into();
        format!("{:032x}", u128::from_be_bytes(hash))
    }
}
