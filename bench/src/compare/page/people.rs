//! Who was compared, on what, and how.

use highwater_pages::{escape, link};

use super::super::figures;
use super::super::results::{Contestant, Kind, Results};

/// All that were measured.
pub(super) fn contestants(results: &Results) -> String {
    // One card for all rows of a contestant: that of its fastest way knows the size of its pool.
    let fastest = |id: &str| results.contestants.iter().any(|other| other.id == format!("{id}-fastest"));
    let measured = results.contestants.iter().filter(|contestant| contestant.not_measured.is_none());
    let measured = measured.filter(|contestant| !contestant.id.contains('+') && !fastest(&contestant.id));
    let cards: String = measured.map(card).collect();
    format!("<div class=\"contestants\">\n{cards}</div>\n")
}

fn card(contestant: &Contestant) -> String {
    let kind = match contestant.kind {
        Kind::Highwater => "Highwater",
        Kind::Raw => "raw driver",
        Kind::Peer => "another library",
    };
    let mut out = format!(
        "<section class=\"card\"><h3>{} <span class=\"badge none\">{kind}</span></h3><dl>",
        escape(contestant.id.trim_end_matches("-fastest"))
    );
    if let Some(about) = &contestant.about {
        let mut entry = |name: &str, html: String| out += &format!("<dt>{name}</dt><dd>{html}</dd>");
        entry("name", escape(&about.name));
        entry("versions", escape(&about.versions));
        entry("follows", link(&about.page));
        entry("documented", escape(&about.documented));
        if let Some(fastest) = &about.fastest {
            entry("fastest", escape(fastest));
        }
        if let Some(what) = &about.installs {
            entry("subscriber", format!("installs {}", escape(what)));
        }
        if let Some(why) = &about.no_follower {
            entry("subscribers", format!("none: {}", escape(why)));
        }
        if let Some(why) = &about.no_failover {
            entry("failover", format!("none: {}", escape(why)));
        }
        if !about.tables.is_empty() {
            entry("tables", escape(&about.tables.join(", ")));
        }
        for note in &about.notes {
            entry("note", escape(note));
        }
        if contestant.kind == Kind::Peer {
            entry("objection", escape(&about.objection));
        }
    }
    out + "</dl></section>\n"
}

/// Who was not measured, and why.
pub(super) fn not_measured(results: &Results) -> String {
    let mut absent = results
        .contestants
        .iter()
        .filter_map(|contestant| Some((contestant, contestant.not_measured.as_ref()?)))
        .peekable();
    if absent.peek().is_none() {
        return "<p>All were measured.</p>\n".to_owned();
    }
    let entries: String = absent
        .map(|(contestant, why)| {
            let versions = contestant.about.as_ref().map_or_else(String::new, |about| {
                format!(" <span class=\"soft\">({})</span>", escape(&about.versions))
            });
            format!("<dt>{}{versions}</dt><dd>{}</dd>", escape(&contestant.id), escape(why))
        })
        .collect();
    format!(
        "<p>They are no slower or faster for it: there are no figures of them in this run.</p>\n<dl>{entries}</dl>\n"
    )
}

/// What it ran on.
pub(super) fn machine(results: &Results) -> String {
    let machine = &results.machine;
    let (before, after) = machine.commit_micros;
    let settings: Vec<String> = machine
        .settings
        .iter()
        .map(|(name, value)| format!("<code>{} = {}</code>", escape(name), escape(value)))
        .collect();
    format!(
        "<dl><dt>processor</dt><dd>{}, {} cores</dd><dt>memory</dt><dd>{} GB</dd><dt>kernel</dt><dd>{}</dd><dt>server</dt><dd>{}</dd>\
         <dt>its settings</dt><dd>{}</dd><dt>a commit</dt><dd>{} µs before the run, {} µs after it (median of 200)</dd></dl>\n",
        escape(&machine.processor),
        machine.cores,
        machine.memory_gigabytes,
        escape(&machine.kernel),
        escape(&machine.postgres),
        settings.join(", "),
        figures::number(before.round()),
        figures::number(after.round())
    )
}

/// How it was done. `docs/performance.md` says more.
pub(super) const METHOD: &str = "<ul>
<li>Every contestant is a process of its own, on one server that waits for the disk (<code>fsync</code> and <code>synchronous_commit</code> on), with the same payload.</li>
<li>Each is filled with 100,000 events and analysed before. They take turns within every round, another one first each time, and warm up in each turn, so that what the machine does besides hits all alike. A figure is the median of the rounds; ± is how far from it a round was at most; whiskers go from the lowest to the highest.</li>
<li>Raw is the same work with a bare driver: no versions, no order that holds, no subscribers. It is a limit, not a choice.</li>
<li>A row without an ending is a contestant as its documentation has it: command path and pool. <code>-fastest</code> is the fastest way that its public interface has, with the best of several pool sizes; <code>+subscriber</code> is the same with what a subscriber installs.</li>
<li><code>highwater-again</code> is Highwater once more. No ratio is called reached or missed that is within what the two are apart.</li>
<li>In G, 16 writers append in transactions of up to 20 ms, one in seven rolled back, while a subscriber follows. What was acknowledged and never handed over is lost. One event in one round is enough to be marked with “!”.</li>
<li>A ratio is the median of the rounds' quotients, each of figures of the same round.</li>
<li>Figures of two runs are not comparable on a noisy machine; ratios of one run are.</li>
</ul>
";
