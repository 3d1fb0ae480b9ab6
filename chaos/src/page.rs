//! A run as one page. The timeline is SVG made here.

mod axis;
mod tables;
#[cfg(test)]
mod tests;
mod timeline;

use highwater_pages::escape;

use crate::evidence::{Evidence, Violation};
use crate::summary::Summary;

const STYLE: &str = include_str!("page/style.css");

/// The whole page.
#[must_use]
pub fn page(seed: u64, evidence: &Evidence, summary: &Summary, violations: &[Violation]) -> String {
    let (class, verdict) = match violations.len() {
        0 => ("good", "Every promise held".to_owned()),
        1 => ("bad", "One promise broken".to_owned()),
        more => ("bad", format!("{more} promises broken")),
    };
    let setting = &summary.setting;
    let about = format!(
        "seed {seed} · {} · {} instances · {:.1} minutes · {} faults",
        setting.backend,
        setting.instances,
        summary.minutes,
        evidence.faults.len()
    );
    let header = format!(
        "<p class=\"soft\">Highwater under faults</p>\n<h1 class=\"{class}\">{verdict}</h1>\n<p>{}</p>\n",
        escape(&about)
    );
    let main = format!(
        "{}{}<section><h2>The run</h2>\n{}</section>\n<section><h2>Faults and takeovers</h2>\n{}</section>\n\
         <section><h2>The schedule</h2>\n{}</section>\n",
        broken(violations),
        tables::cards(summary),
        timeline::timeline(evidence),
        tables::faults(summary),
        tables::schedule(evidence),
    );
    let footer = format!(
        "The same run again: <code>chaos/run --seed {seed} --backend {}</code>",
        escape(&summary.setting.backend)
    );
    let title = format!("Highwater under faults: seed {seed}");
    highwater_pages::page(&title, STYLE, [&header, &main, &footer])
}

/// What is broken: the first with its evidence, the others on request.
fn broken(violations: &[Violation]) -> String {
    let Some((first, others)) = violations.split_first() else { return String::new() };
    let mut out = format!("<section><h2>What is broken</h2>\n{}", violation(first));
    if !others.is_empty() {
        let others: String = others.iter().map(violation).collect();
        out += &format!("<details><summary>{} more</summary>\n{others}</details>\n", violations.len() - 1);
    }
    out + "</section>\n"
}

fn violation(violation: &Violation) -> String {
    let Violation { guarantee, what, evidence } = violation;
    format!(
        "<div class=\"violation\"><p><span class=\"badge bad\">{}</span> {}</p>\n<pre>{}</pre></div>\n",
        escape(guarantee),
        escape(what),
        evidence.iter().map(|line| escape(line)).collect::<Vec<_>>().join("\n")
    )
}
