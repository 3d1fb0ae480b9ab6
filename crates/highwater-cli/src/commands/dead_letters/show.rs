//! `highwater dead-letters show`

use clap::Args;
use highwater::backend::Backend;
use highwater::operations::DeadLetterDetail;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::arguments::Global;
use crate::failure::Failure;
use crate::output::Output;
use crate::record::{Shown, on_one_line};
use crate::requests::bus;
use crate::words;

/// Show one dead letter: its event, its error, and what has been done with it
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  highwater dead-letters show 0198b0a4-7f5e-7c3c-9d2e-3f1f6a0c1b2d")]
pub(crate) struct Show {
    /// The dead letter's id, as `dead-letters list` shows it
    #[arg(value_name = "ID")]
    dead_letter: Uuid,
}

impl Show {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        let store = global.open().await?;
        self.on(&*store, global).await
    }

    async fn on(&self, store: &dyn Backend, global: &Global) -> Result<(), Failure> {
        let detail = bus(store)?.dead_letters().show(self.dead_letter).await?;
        let mut out = global.output();
        match global.json {
            true => out.value(&self::json(&detail)?)?,
            false => tell(&detail, &mut out)?,
        }
        out.finish()
    }
}

fn tell(detail: &DeadLetterDetail, out: &mut Output) -> Result<(), Failure> {
    let dead_letter = &detail.dead_letter;
    let mut line = |name: &str, text: &str| out.line(format!("{name:<12} {}", words::one_line(text)).trim_end());
    line("dead letter", &dead_letter.id.to_string())?;
    line("subscriber", &dead_letter.subscriber_id)?;
    line("state", dead_letter.state.name())?;
    line("event", &format!("{} at {}", dead_letter.event_type, words::number(dead_letter.global_sequence)))?;
    line("", &format!("id {}, stream {}", dead_letter.event_id, words::one_line(&dead_letter.stream().to_string())))?;
    match &detail.record {
        Some(record) => {
            line("", &format!("version {}, made {}", record.stream_version, words::time(record.created_at)))?;
            line("data", &on_one_line(&record.data))?;
            line("metadata", &on_one_line(&record.metadata))?;
        }
        None => line("", "the log does not have it any more")?,
    }
    line("written", &words::time(dead_letter.created_at))?;
    line("retried", &words::count(dead_letter.retry_count.into(), "time"))?;
    line(
        "error",
        dead_letter.error_message.as_deref().unwrap_or("none: it waits behind an earlier event of its stream"),
    )?;
    if dead_letter.parks {
        line("", "later events of its stream wait behind it")?;
    }
    for attempt in &detail.attempts {
        let why = attempt.detail.as_deref().map(|detail| format!(": {detail}")).unwrap_or_default();
        line("history", &format!("{} {} by {}{why}", words::time(attempt.at), attempt.outcome, attempt.by))?;
    }
    Ok(())
}

fn json(detail: &DeadLetterDetail) -> Result<Value, Failure> {
    let mut value = super::list::json(&detail.dead_letter);
    let record = detail.record.as_ref().map(Shown::new).transpose()?;
    let attempts = detail.attempts.iter().map(|attempt| {
        json!({
            "at": words::exact(attempt.at),
            "by": attempt.by,
            "outcome": attempt.outcome,
            "detail": attempt.detail,
        })
    });
    value["record"] = serde_json::to_value(record).map_err(std::io::Error::from)?;
    value["attempts"] = attempts.collect();
    Ok(value)
}
