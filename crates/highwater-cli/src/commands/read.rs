//! `highwater read`

use clap::Args;
use highwater::EventTypes;
use highwater::backend::{Backend, Direction, ReadLimit, StreamRead};
use uuid::Uuid;

use crate::arguments::Global;
use crate::failure::{Exit, Failure};
use crate::record::Listing;
use crate::stream::StreamName;

/// Records in a page.
const PAGE_EVENTS: usize = 1_000;

const EXAMPLES: &str = "\
Examples:
  highwater read order/17
  highwater read order/17 --backwards --limit 1
  highwater read order/17 --type Placed --since 1000
  highwater read 0198b0a4-7f5e-7c3c-9d2e-3f1f6a0c1b2d --json";

/// Show the events of one stream
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Read {
    /// The stream: a UUID, or a name such as order/17
    stream: StreamName,
    /// The first version to show
    #[arg(long, value_name = "VERSION")]
    from: Option<u64>,
    /// Only what comes after this position in the log
    #[arg(long, value_name = "SEQUENCE", default_value_t = 0)]
    since: u64,
    /// Only events of this type; may be given several times
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// How many events to show at most
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// From new to old
    #[arg(long)]
    backwards: bool,
}

impl Read {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        let store = global.open().await?;
        self.on(&*store, global).await
    }

    async fn on(&self, store: &dyn Backend, global: &Global) -> Result<(), Failure> {
        let stream_id = self.stream.find(store).await?.id();
        let (mut out, mut listing) = (global.output(), Listing::new());
        let direction = if self.backwards { Direction::Backwards } else { Direction::Forwards };
        let types = if self.types.is_empty() { EventTypes::All } else { EventTypes::only(&self.types) };
        let mut left = self.limit.unwrap_or(u64::MAX);
        let mut from = self.from.unwrap_or(if self.backwards { u64::MAX } else { 1 });
        let mut found = false;
        while left > 0 {
            let limit = ReadLimit::events(PAGE_EVENTS.min(usize::try_from(left).unwrap_or(PAGE_EVENTS)));
            let read = StreamRead { direction, limit, types: types.clone(), after: self.since, from };
            let page = store.read_stream(stream_id, read).await?;
            for record in &page.records {
                listing.show(&mut out, record)?;
            }
            out.flush()?;
            left -= page.records.len() as u64;
            let Some(last) = page.records.last() else { break };
            found = true;
            if page.end {
                break;
            }
            from = if self.backwards { last.stream_version - 1 } else { last.stream_version + 1 };
        }
        if !found && is_missing(store, stream_id).await? {
            let message = format!("there is no stream {}: nothing was ever appended to it", self.stream);
            return Err(Failure::new(Exit::NotFound, message));
        }
        out.finish()
    }
}

async fn is_missing(store: &dyn Backend, stream_id: Uuid) -> Result<bool, Failure> {
    let first = StreamRead { limit: ReadLimit::events(1), ..StreamRead::forwards(1) };
    Ok(store.read_stream(stream_id, first).await?.records.is_empty())
}
