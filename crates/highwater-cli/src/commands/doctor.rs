//! `highwater doctor`

use clap::Args;
use highwater::backend::{Backend, Finding, Severity};
use serde_json::json;

use crate::arguments::Global;
use crate::failure::{Exit, Failure};
use crate::terminal::Paint;
use crate::words;

/// Look for what is wrong with an event store, and say what to do about it
///
/// Looking changes nothing. Ends with exit code 1 when something is bad; --strict makes that of warnings, too.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  highwater doctor\n  highwater doctor --strict --json")]
pub(crate) struct Doctor {
    /// Let warnings count as bad
    #[arg(long)]
    strict: bool,
}

impl Doctor {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        let store = global.target()?.open_as_it_is(false).await?;
        let findings = findings(&*store).await?;
        let mut out = global.output();
        for finding in &findings {
            if global.json {
                out.value(&json!({
                    "severity": finding.severity.to_string(),
                    "topic": finding.topic,
                    "found": words::for_the_shell(&finding.found),
                    "advice": finding.advice.as_deref().map(words::for_the_shell),
                }))?;
                continue;
            }
            let (paint, name) = (paint(finding.severity), finding.severity.to_string());
            let severity = out.paint(&format!("{name:<7}"), paint);
            out.line(&format!(
                "{severity}  {}: {}",
                finding.topic,
                words::one_line(&words::for_the_shell(&finding.found))
            ))?;
            if let Some(advice) = &finding.advice {
                out.line(&format!("         {}", words::one_line(&words::for_the_shell(advice))))?;
            }
        }
        out.finish()?;
        let limit = if self.strict { Severity::Warning } else { Severity::Bad };
        let bad = findings.iter().filter(|finding| finding.severity >= limit).count() as u64;
        match bad {
            0 => Ok(()),
            _ if global.json => Err(Failure::silent(Exit::Refused)),
            bad => Err(Failure::refused(format!("{} to deal with", words::count(bad, "problem")))),
        }
    }
}

async fn findings(store: &dyn Backend) -> Result<Vec<Finding>, Failure> {
    Ok(store.diagnose().await?)
}

fn paint(severity: Severity) -> Paint {
    match severity {
        Severity::Good => Paint::Green,
        Severity::Note => Paint::Bold,
        Severity::Warning => Paint::Yellow,
        Severity::Bad => Paint::Red,
    }
}
