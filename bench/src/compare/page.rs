//! What a run found, as one page. Plots are SVG made here, and beside each stands its table.

mod axes;
mod bars;
mod curves;
mod drawn;
mod latency;
mod people;
mod tables;

use highwater_pages::escape;

use super::baseline;
use super::figures::{self, Verdict};
use super::grid;
use super::results::{Kind, Results, Scenario};

const STYLE: &str = include_str!("page/style.css");

/// What the bars are.
const BARS: [(&str, &str); 5] = [
    ("f-ours", "Highwater"),
    ("f-ours-best", "Highwater otherwise"),
    ("f-raw", "raw driver"),
    ("f-best-peer", "best other library"),
    ("f-peer", "other libraries"),
];

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
    let quick = if results.complete {
        quick.to_owned()
    } else {
        format!("{quick}<p class=\"warning\"><strong>Interrupted:</strong> what was measured until then.</p>\n")
    };
    let header = format!(
        "<h1>Highwater beside other event stores</h1>\n<p class=\"soft\">{} · commit <code>{}</code> · took {}</p>\n{quick}{}\
         <nav aria-label=\"Sections\">{links}</nav>\n",
        escape(&results.date),
        escape(&results.commit),
        figures::duration(results.seconds),
        cards(results)
    );
    let title = format!("Highwater compared, {}", results.date);
    let footer =
        "Made by <code>bench/run compare</code>. The figures are in the file of the same name that ends in .json.";
    highwater_pages::page(&title, STYLE, [&header, &body, footer])
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
    let wrong =
        results.contestants.iter().filter(|who| who.kind == Kind::Peer && grid::went_wrong(results, &who.id)).count();
    let peers = results.contestants.iter().filter(|who| who.kind == Kind::Peer && who.not_measured.is_none()).count();
    let count = |wanted| results.ratios.iter().filter(|ratio| figures::verdict(ratio) == Some(wanted)).count();
    let [reached, missed, unsure, open] =
        [Verdict::Reached, Verdict::Missed, Verdict::WithinNoise, Verdict::NotMeasured].map(count);
    let goals = if missed > 0 { "bad" } else { "good" };
    let mut not = if unsure > 0 { format!(", {unsure} within the noise") } else { String::new() };
    if open > 0 {
        not += &format!(", {open} not measured");
    }
    let absent = results.contestants.iter().filter(|who| who.not_measured.is_some()).count();
    let measured = results.contestants.len() - absent;
    highwater_pages::cards(&[
        (class, told.to_owned(), "events that Highwater lost, reordered or doubled".to_owned()),
        ("", format!("{wrong} of {peers}"), "other libraries lost, reordered or doubled some".to_owned()),
        (
            goals,
            format!("{reached} of {}", reached + missed + unsure + open),
            format!("goals reached, {missed} missed{not}"),
        ),
        ("", measured.to_string(), format!("contestants measured, {absent} not")),
    ])
}

fn measured(results: &Results, scenario: &Scenario) -> String {
    let bars = bars::plots(results, scenario);
    let wrong = "<span>! lost, reordered or doubled events in G</span>";
    let key = if bars.is_empty() { String::new() } else { highwater_pages::key(BARS, wrong) };
    let plots = format!("{bars}{key}{}{}", latency::plots(results, scenario), curves::plots(results, scenario));
    format!(
        "{}{plots}<details open><summary>Figures</summary>\n{}</details>\n",
        sizes(scenario),
        tables::scenario(results, scenario)
    )
}

/// A plot under its title and unit.
fn figure(title: &str, unit: &str, plot: &str) -> String {
    let (title, unit) = (escape(title), escape(unit));
    format!("<figure><figcaption>{title} <small>{unit}</small></figcaption>{plot}</figure>\n")
}

/// A unit, and which way is better.
fn unit(unit: &str, higher_is_better: bool) -> String {
    format!("{unit}, {} is better", if higher_is_better { "more" } else { "less" })
}

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
