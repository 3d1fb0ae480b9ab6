//! `highwater streams`

use clap::Args;
use highwater::backend::{Backend, NamedStream};
use serde_json::json;

use crate::arguments::Global;
use crate::failure::Failure;
use crate::words;

/// Streams in a page.
const PAGE_STREAMS: u64 = 1_000;

const EXAMPLES: &str = "\
Examples:
  highwater streams order/
  highwater streams order/2024- --limit 20
  highwater streams --json";

/// List streams by name
///
/// A stream has the name that its first event brought: kind, slash, key. Streams that were begun by their ids alone are not in
/// the list; `highwater events` shows their events.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Streams {
    /// What their names begin with: order/ for those of kind order
    #[arg(default_value = "")]
    prefix: String,
    /// How many to show at most
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

impl Streams {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        let store = global.open().await?;
        self.on(&*store, global).await
    }

    async fn on(&self, store: &dyn Backend, global: &Global) -> Result<(), Failure> {
        let (mut out, mut last): (_, Option<NamedStream>) = (global.output(), None);
        let mut left = self.limit.unwrap_or(u64::MAX);
        while left > 0 {
            let wanted = left.min(PAGE_STREAMS);
            let page = store.streams(&self.prefix, last.as_ref(), wanted as usize).await?;
            for stream in &page {
                let NamedStream { name, stream_id, version } = stream;
                match global.json {
                    true => out.value(&json!({
                        "name": name.as_str(), "stream": stream_id.to_string(), "version": version,
                    }))?,
                    false => out.row(&format!(
                        "{:<40}  {:>7}  {stream_id}",
                        words::one_line(name.as_str()),
                        words::number(*version)
                    ))?,
                }
            }
            out.flush()?;
            left -= page.len() as u64;
            if (page.len() as u64) < wanted {
                break;
            }
            last = page.into_iter().next_back();
        }
        out.finish()
    }
}
