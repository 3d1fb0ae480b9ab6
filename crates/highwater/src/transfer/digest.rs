//! A hash over lines, and how many there were of each kind.

use md5::{Digest as _, Md5};
use serde::{Deserialize, Serialize};

use super::FilledCheckpoint;
use super::line::{EventLine, LetterLine, Line, RequestLine};
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
    pub letters: u64,
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
    pub(super) fn record(&mut self, record: &Record) {
        self.counts.events += 1;
        self.line(&Line::Event(EventLine::new(record)));
    }

    pub(super) fn checkpoint(&mut self, checkpoint: &FilledCheckpoint) {
        self.counts.checkpoints += 1;
        self.line(&Line::Checkpoint(std::borrow::Cow::Borrowed(checkpoint)));
    }

    pub(super) fn letter(&mut self, letter: &DeadLetterDetail) {
        self.counts.letters += 1;
        self.line(&Line::Letter(LetterLine::new(letter)));
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
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.text)
    }

    /// The hash of everything so far.
    pub(super) fn hash(&self) -> String {
        let hash: [u8; 16] = self.hash.clone().finalize().into();
        format!("{:032x}", u128::from_be_bytes(hash))
    }
}
