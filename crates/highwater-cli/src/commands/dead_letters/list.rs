//! `highwater dead-letters list`

use clap::{Args, ValueEnum};
use highwater::StreamName;
use highwater::backend::Backend;
use highwater::operations::{DeadLetter, DeadLetterState};
use serde_json::{Value, json};

use super::choice::{Choice, OPEN, Pages};
use crate::arguments::Global;
use crate::failure::{Failure, note};
use crate::table::{Cell, Table};
use crate::terminal::Paint;
use crate::words;

const EXAMPLES: &str = "\
Examples:
  highwater dead-letters list
  highwater dead-letters list --subscriber projection:revenue --since 2h
  highwater dead-letters list --state all --json";

/// List dead letters, in the order of their events
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    #[command(flatten)]
    choice: Choice,
    /// In which state
    #[arg(long, value_enum, default_value_t = StateFilter::Open)]
    state: StateFilter,
    /// How many to list at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StateFilter {
    Open,
    All,
    Dead,
    Parked,
    Replayed,
    Discarded,
    Archived,
}

impl StateFilter {
    fn states(self) -> Vec<DeadLetterState> {
        match self {
            Self::Open => OPEN.to_vec(),
            Self::All => DeadLetterState::ALL.to_vec(),
            Self::Dead => vec![DeadLetterState::Dead],
            Self::Parked => vec![DeadLetterState::Parked],
            Self::Replayed => vec![DeadLetterState::Replayed],
            Self::Discarded => vec![DeadLetterState::Discarded],
            Self::Archived => vec![DeadLetterState::Archived],
        }
    }
}

impl List {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        let store = global.open().await?;
        self.on(&*store, global).await
    }

    async fn on(&self, store: &dyn Backend, global: &Global) -> Result<(), Failure> {
        self.choice.check(store).await?;
        let query = self.choice.query(store, self.state.states()).await?;
        let total = store.count_dead_letters(&query).await?;
        let mut pages = Pages::new(store, query);
        let mut out = global.output();
        let mut table = Table::new(&[
            "dead letter",
            "subscriber",
            ">sequence",
            "stream",
            "type",
            "state",
            ">tries",
            "written",
            "error",
        ]);
        let mut shown = 0;
        while shown < self.limit
            && let Some(dead_letters) = pages.next().await?
        {
            for dead_letter in dead_letters.iter().take(self.limit - shown) {
                shown += 1;
                match global.json {
                    true => out.value(&self::json(dead_letter))?,
                    false => table.row(cells(dead_letter)),
                }
            }
        }
        if !global.json {
            match total {
                0 => out.line("no dead letters")?,
                _ => out.table(&table)?,
            }
        }
        out.finish()?;
        if total > shown as u64 {
            note(&format!("{} more; --limit shows more at once", words::number(total - shown as u64)));
        }
        Ok(())
    }
}

fn cells(dead_letter: &DeadLetter) -> [Cell; 9] {
    let paint = match dead_letter.state {
        DeadLetterState::Dead => Paint::Red,
        DeadLetterState::Parked => Paint::Yellow,
        _ => Paint::Dim,
    };
    [
        dead_letter.id.into(),
        (&dead_letter.subscriber_id).into(),
        dead_letter.global_sequence.into(),
        dead_letter.stream().to_string().into(),
        (&dead_letter.event_type).into(),
        Cell::painted(dead_letter.state.name(), paint),
        (u64::from(dead_letter.retry_count) + u64::from(dead_letter.error_message.is_some())).into(),
        words::time(dead_letter.created_at).into(),
        dead_letter.error_message.as_deref().unwrap_or("waits behind an earlier event of its stream").into(),
    ]
}

pub(super) fn json(dead_letter: &DeadLetter) -> Value {
    json!({
        "dead_letter": dead_letter.id.to_string(),
        "subscriber": dead_letter.subscriber_id,
        "state": dead_letter.state.name(),
        "event": dead_letter.event_id.to_string(),
        "global_sequence": dead_letter.global_sequence,
        "stream": dead_letter.stream_id.to_string(),
        "stream_name": dead_letter.stream_name.as_ref().map(StreamName::as_str),
        "type": dead_letter.event_type,
        "error": dead_letter.error_message,
        "retries": dead_letter.retry_count,
        "parks": dead_letter.parks,
        "created_at": words::exact(dead_letter.created_at),
        "last_retry_at": dead_letter.last_retry_at.map(words::exact),
        "resolved_at": dead_letter.resolved_at.map(words::exact),
        "resolved_by": dead_letter.resolved_by,
        "reason": dead_letter.reason,
    })
}
