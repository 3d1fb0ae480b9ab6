//! What was seen, and whether the books balance.

use highwater_demo::{Plan, Report};

use super::lines::milliseconds;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Cell, Table};
use crate::terminal::Paint;
use crate::words;

/// Prints the end of it all.
pub(super) fn print(plan: &Plan, seen: &Report, mut out: Output) -> Result<(), Failure> {
    out.line("")?;
    out.line(&format!(
        "{}, {} in {:.1} s: {} events/s",
        words::count(seen.orders, "order"),
        words::count(seen.events, "event"),
        seen.took.as_secs_f64(),
        words::number((seen.events as f64 / seen.took.as_secs_f64()).round() as u64),
    ))?;
    if seen.held_back {
        let wanted = words::number(plan.rate);
        out.line(&format!("{wanted} orders a second were more than this machine can handle: some were held back"))?;
    }
    let shares = seen.shares.iter().map(|(number, events)| format!("{number}: {}", words::number(*events)));
    out.line(&format!("events handled by instance {}", shares.collect::<Vec<_>>().join(", by instance ")))?;
    takeovers(seen, &mut out)?;
    out.line(&format!("{} replayed after the addresses were repaired", words::count(seen.replayed, "dead letter")))?;
    if seen.asked_again > 0 {
        let again = words::count(seen.asked_again, "e-mail");
        out.line(&format!("{again} asked for twice after the kill, and sent once"))?;
    }
    out.line("")?;
    books(seen, &mut out)?;
    out.line("")?;
    let verdict = match seen.is_balanced() {
        true => out.paint("The books balance: nothing was lost, nothing was counted twice.", Paint::Green),
        false => out.paint("The books do not balance.", Paint::Red),
    };
    out.line(&verdict)?;
    next(seen, &mut out)?;
    out.finish()
}

fn takeovers(seen: &Report, out: &mut Output) -> Result<(), Failure> {
    let killed = &seen.killed;
    let led = killed.led.join(" and ");
    out.line(&format!("instance {} (pid {}) was killed with SIGKILL while it led {led}", killed.number, killed.pid))?;
    for takeover in &seen.takeovers {
        let (id, by) = (takeover.subscriber_id, takeover.by);
        out.line(&format!("  {id}: instance {by} handled the next event after {}", milliseconds(takeover.after)))?;
    }
    let unseen = killed.led.iter().filter(|id| !seen.takeovers.iter().any(|takeover| takeover.subscriber_id == **id));
    for id in unseen {
        out.line(&format!("  {id}: no event came for it after that"))?;
    }
    out.line("  (from before the signal was sent to the time that the next instance wrote down with its first event)")
}

fn books(seen: &Report, out: &mut Output) -> Result<(), Failure> {
    let mut table = Table::new(&["", "the books, by plain SQL", ">expected", ">found"]);
    for book in &seen.books {
        let mark = match book.balances() {
            true => Cell::painted("✓", Paint::Green),
            false => Cell::painted("✗", Paint::Red),
        };
        let number = |number: i64| match u64::try_from(number) {
            Ok(number) => words::number(number),
            Err(_) => number.to_string(),
        };
        table.row([mark, book.name.into(), number(book.expected).into(), number(book.found).into()]);
    }
    out.table(&table)
}

fn next(seen: &Report, out: &mut Output) -> Result<(), Failure> {
    match &seen.kept {
        Some(arguments) => {
            out.line("The shop was kept. Look at it:")?;
            for command in ["status", "events", "dead-letters list --state all"] {
                out.line(&format!("  highwater {command} {arguments}"))?;
            }
            Ok(())
        }
        None => out.line(
            "Next: add --keep, and look around with `highwater status`, `highwater why` and `highwater events`.\n\
             A first program of your own: cargo run --example orders",
        ),
    }
}
