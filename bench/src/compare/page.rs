//! What a run found, as one page that needs nothing but itself: no script, no network. Plots are SVG made here, and beside
//! each stands its table.

mod axes;
mod bars;
mod curves;
mod html;
mod latency;
mod people;
mod tables;

use self::html::escape;
use super::baseline;
use super::figures::{self, Verdict};
use super::grid;
use super::results::{Kind, Results, Scenario};

const STYLE: &str = include_str!("page/style.css");

/// The whole page; with what changed since an earlier run, if there is one.
pub(crate) fn render(results: &Results, baseline: Option<&Results>) -> String {
    let correctness: Vec<&Scenario> =
        grid::in_order(results).filter(|scenario| grid::is_correctness(scenario)).collect();
    let others: Vec<&Scenario> = grid::in_order(results).filter(|scenario| !grid::is_correctness(scenario)).collect();
    let mut sections: Vec<(String, String, String)> = Vec::new();
    let mut add = |id: &str, title: &str, body: String| sections.push((id.to_owned(), title.to_owned(), body));
    for scenario in correctness {
        let text = "<p>First, because a rate without it means nothing: who hands over events that are not all of them, or in another \
                    order, does another task than the rest. Counted are events; what is not 0 in a single round stands in red.</p>\n";
        add(&scenario.id, "Correctness", format!("{}{text}{}", sizes(scenario), tables::scenario(results, scenario)));
    }
    add("goals", "Goals", tables::goals(results));
    if let Some(earlier) = baseline {
        let comparison = baseline::compare(results, earlier);
        add(
            "changes",
            "Changes",
            format!(
                "<p class=\"sizes\">since the run of {}</p>\n{}",
                escape(&comparison.earlier),
                tables::changes(&comparison)
            ),
        );
    }
    for scenario in others {
        add(&scenario.id, &format!("{} · {}", scenario.id, scenario.title), measured(results, scenario));
    }
    add("contestants", "Contestants", people::contestants(results));
    add("absent", "Not measured", people::not_measured(results));
    add("machine", "Machine", people::machine(results));
    add("method", "Method", people::METHOD.to_owned());
    whole(results, &sections)
}

fn whole(results: &Results, sections: &[(String, String, String)]) -> String {
    let date = escape(&results.date);
    let links: String = sections
        .iter()
        .map(|(id, title, _)| format!("<a href=\"#{}\">{}</a>", anchor(id), escape(short(title))))
        .collect();
    let body: String = sections
        .iter()
        .map(|(id, title, body)| {
            format!("<section><h2 id=\"{}\">{}</h2>\n{body}</section>\n", anchor(id), escape(title))
        })
        .collect();
    let quick = if results.quick {
        "<p class=\"warning\"><strong>A quick run:</strong> little data and little time. Its figures show that it works, and no more.</p>\n"
    } else {
        ""
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>Highwater compared, {date}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header>\n<h1>Highwater beside other event stores</h1>\n<p class=\"soft\">{date} · commit <code>{}</code> · took {}</p>\n{quick}{}\
         <nav aria-label=\"Sections\">{links}</nav>\n</header>\n<main>\n{body}</main>\n<footer>Made by <code>bench/run compare</code>. The figures are in the file of the same name that ends in .json.</footer>\n</body>\n</html>\n",
        escape(&results.commit),
        figures::duration(results.seconds),
        cards(results)
    )
}

/// What to know when nothing else is read.
fn cards(results: &Results) -> String {
    let ours = || results.contestants.iter().filter(|contestant| contestant.kind == Kind::Highwater);
    let counted = |id: &str| {
        let rows = results
            .scenarios
            .iter()
            .filter(|scenario| grid::is_correctness(scenario))
            .flat_map(|scenario| &scenario.rows);
        rows.filter(|row| row.contestant == id && !row.samples.is_empty()).count()
    };
    let (class, told) = if ours().any(|contestant| grid::went_wrong(results, &contestant.id)) {
        ("bad", "some")
    } else if ours().any(|contestant| counted(&contestant.id) > 0) {
        ("good", "0")
    } else {
        ("", "not measured")
    };
    let mut out = card(class, told, "events that Highwater lost, reordered or doubled");
    let wrong =
        results.contestants.iter().filter(|who| who.kind == Kind::Peer && grid::went_wrong(results, &who.id)).count();
    let peers = results.contestants.iter().filter(|who| who.kind == Kind::Peer && who.not_measured.is_none()).count();
    out += &card("", &format!("{wrong} of {peers}"), "other libraries lost, reordered or doubled some");
    let count = |wanted| results.ratios.iter().filter(|ratio| figures::verdict(ratio) == Some(wanted)).count();
    let [reached, missed, open] = [Verdict::Reached, Verdict::Missed, Verdict::NotMeasured].map(count);
    let class = if missed > 0 { "bad" } else { "good" };
    let not = if open > 0 { format!(", {open} not measured") } else { String::new() };
    out += &card(
        class,
        &format!("{reached} of {}", reached + missed + open),
        &format!("goals reached, {missed} missed{not}"),
    );
    let absent = results.contestants.iter().filter(|who| who.not_measured.is_some()).count();
    let measured = results.contestants.len() - absent;
    out += &card("", &measured.to_string(), &format!("contestants measured, {absent} not"));
    format!("<div class=\"cards\">\n{out}</div>\n")
}

fn card(class: &str, figure: &str, text: &str) -> String {
    format!("<div class=\"card {class}\"><b>{}</b><span>{}</span></div>\n", escape(figure), escape(text))
}

fn measured(results: &Results, scenario: &Scenario) -> String {
    let bars = bars::plots(results, scenario);
    let key = if bars.is_empty() { "" } else { KEY };
    let plots = format!("{bars}{key}{}{}", latency::plots(results, scenario), curves::plots(results, scenario));
    format!(
        "{}{plots}<details open><summary>Figures</summary>\n{}</details>\n",
        sizes(scenario),
        tables::scenario(results, scenario)
    )
}

/// What the bars are.
const KEY: &str = "<div class=\"key\">\
    <span><svg viewBox=\"0 0 22 12\" aria-hidden=\"true\"><rect class=\"f-ours\" width=\"22\" height=\"12\" rx=\"2\"/></svg>Highwater</span>\
    <span><svg viewBox=\"0 0 22 12\" aria-hidden=\"true\"><rect class=\"f-ours-best\" width=\"22\" height=\"12\" rx=\"2\"/></svg>Highwater at its best</span>\
    <span><svg viewBox=\"0 0 22 12\" aria-hidden=\"true\"><rect class=\"f-raw\" width=\"22\" height=\"12\" rx=\"2\"/></svg>raw driver</span>\
    <span><svg viewBox=\"0 0 22 12\" aria-hidden=\"true\"><rect class=\"f-best-peer\" width=\"22\" height=\"12\" rx=\"2\"/></svg>best other library</span>\
    <span><svg viewBox=\"0 0 22 12\" aria-hidden=\"true\"><rect class=\"f-peer\" width=\"22\" height=\"12\" rx=\"2\"/></svg>other libraries</span>\
    <span>! lost, reordered or doubled events in G</span></div>\n";

fn sizes(scenario: &Scenario) -> String {
    format!("<p class=\"sizes\">{}</p>\n", escape(&scenario.sizes))
}

/// A scenario's letter stands for it.
fn short(title: &str) -> &str {
    title.split_once(" · ").map_or(title, |(letter, _)| letter)
}

fn anchor(id: &str) -> String {
    id.chars().filter(char::is_ascii_alphanumeric).collect()
}

#[cfg(test)]
mod tests;
