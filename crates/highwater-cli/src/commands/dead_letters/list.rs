//! `highwater dead-letters list`

use clap::{Args, ValueEnum};
use highwater::backend::Backend;
use highwater::{DeadLetter, DeadLetterState};
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
    #[arg(long, value_enum, default_value_t = State::Open)]
    state: State,
    /// How many to list at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum State {
    Open,
    All,
    Dead,
    Parked,
    Replayed,
    Discarded,
    Archived,
}

impl State {
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
        let query = self.choice.query(self.state.states());
        let total = store.count_letters(&query).await?;
        let mut pages = Pages::new(store, query);
        let mut out = global.output();
        let mut table =
            Table::new(&["letter", "subscriber", ">sequence", "type", "state", ">tries", "written", "error"]);
        let mut shown = 0;
        while shown < self.limit
            && let Some(letters) = pages.next().await?
        {
            for letter in letters.iter().take(self.limit - shown) {
                shown += 1;
                match global.json {
                    true => out.value(&self::json(letter))?,
                    false => table.row(cells(letter)),
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

fn cells(letter: &DeadLetter) -> [Cell; 8] {
    let paint = match letter.state {
        DeadLetterState::Dead => Paint::Red,
        DeadLetterState::Parked => Paint::Yellow,
        _ => Paint::Dim,
    };
    [
        letter.id.into(),
        (&letter.subscriber_id).into(),
        letter.global_sequence.into(),
        (&letter.event_type).into(),
        Cell::painted(letter.state.name(), paint),
        (u64::from(letter.retry_count) + u64::from(letter.error_message.is_some())).into(),
        words::time(letter.created_at).into(),
        letter.error_message.as_deref().unwrap_or("waits behind an earlier event of its stream").into(),
    ]
}

pub(super) fn json(letter: &DeadLetter) -> Value {
    json!({
        "letter": letter.id.to_string(),
        "subscriber": letter.subscriber_id,
        "state": letter.state.name(),
        "event": letter.event_id.to_string(),
        "global_sequence": letter.global_sequence,
        "stream": letter.stream_id.to_string(),
        "type": letter.event_type,
        "error": letter.error_message,
        "retries": letter.retry_count,
        "parks": letter.parks,
        "created_at": words::exact(letter.created_at),
        "last_retry_at": letter.last_retry_at.map(words::exact),
        "resolved_at": letter.resolved_at.map(words::exact),
        "resolved_by": letter.resolved_by,
        "reason": letter.reason,
    })
}
