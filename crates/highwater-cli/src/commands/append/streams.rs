//! Which stream a name in a line means: the one that is called so in the store, or else the one that the library derives from it.

use std::collections::{HashMap, HashSet};

use futures_util::future::join_all;
use highwater::backend::Backend;
use uuid::Uuid;

use super::line::Line;
use crate::failure::Failure;

/// Streams that are remembered. When there are more, the store is asked again.
const STREAMS_MAX: usize = 10_000;
/// How many are asked for at the same time.
const AT_ONCE: usize = 8;

/// What names mean, as far as this command has asked: the store is asked once for a name.
#[derive(Debug, Default)]
pub(super) struct Streams(HashMap<String, Uuid>);

impl Streams {
    /// Gives every line the stream that it names. Fails with the first line for which that cannot be done.
    pub(super) async fn settle(&mut self, store: &dyn Backend, lines: &mut [Line]) -> Result<(), (u64, Failure)> {
        if self.0.len() >= STREAMS_MAX {
            self.0.clear();
        }
        let mut new: Vec<&Line> = Vec::new();
        let mut names = HashSet::new();
        for line in lines.iter() {
            if !self.0.contains_key(line.stream.as_str()) && names.insert(line.stream.as_str()) {
                new.push(line);
            }
        }
        for some in new.chunks(AT_ONCE) {
            let found = join_all(some.iter().map(|line| line.stream.find(store))).await;
            for (line, found) in some.iter().zip(found) {
                let found = found.map_err(|failure| (line.number, failure))?;
                self.0.insert(line.stream.as_str().to_owned(), found.id());
            }
        }
        for line in lines {
            if let Some(id) = self.0.get(line.stream.as_str()) {
                line.record.stream_id = *id;
            }
        }
        Ok(())
    }
}
