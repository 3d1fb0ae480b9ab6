//! What was asked for.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::compare::CompareOptions;

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    Append,
    Read,
    CatchUp,
    Latency,
    Subscribers,
    Memory,
    Failover,
    Stores,
    Sqlite,
    Compare,
}

impl Scenario {
    const ALL: [(Self, &'static str, &'static str); 10] = [
        (Self::Append, "append", "storing events: 32 and 256 callers, a lone one, batches of 100"),
        (Self::Read, "read", "reading events: the whole log, one stream"),
        (Self::CatchUp, "catchup", "delivering what is there: counting, in transactions, a checkpoint each"),
        (Self::Latency, "latency", "delivering what is new: to another process, 100 events a second"),
        (Self::Subscribers, "subscribers", "many subscribers in one process: 1 to 200, 1,000 events a second"),
        (Self::Memory, "memory", "memory of a subscriber that is two million events behind"),
        (Self::Failover, "failover", "another instance resumes: after a crash, a stop and a hang; one that stands by"),
        (Self::Stores, "stores", "64 processes that append alone, beside one with 64 callers"),
        (Self::Sqlite, "sqlite", "in a SQLite file: appending, catching up, what an idle process costs"),
        (Self::Compare, "compare", "Highwater beside raw drivers and other libraries, everything, in 45 minutes"),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(scenario, ..)| *scenario == self).map_or("", |(_, name, _)| name)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Options {
    pub(crate) scenario: Scenario,
    /// How often everything is measured.
    pub(crate) rounds: usize,
    /// How long each measurement takes.
    pub(crate) time: Duration,
    /// Just to see that it works: short, and little data.
    pub(crate) quick: bool,
    /// Of a comparison.
    pub(crate) compare: CompareOptions,
}

/// Why the arguments do not do.
#[derive(Debug, PartialEq)]
pub(crate) struct Usage(String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.0)?;
        writeln!(f, "usage: bench/run SCENARIO [--rounds N] [--seconds S] [--quick]")?;
        writeln!(
            f,
            "       bench/run compare [--quick] [--only LETTERS] [--minutes N] [--baseline FILE] [--write-docs]"
        )?;
        writeln!(f, "       bench/run compare --from FILE [--baseline FILE] [--write-docs]")?;
        write!(f, "scenarios:")?;
        Scenario::ALL.iter().try_for_each(|(_, name, what)| write!(f, "\n  {name:13}{what}"))
    }
}

impl Options {
    pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Self, Usage> {
        let (mut scenario, mut rounds, mut seconds, mut quick) = (None, None, None, false);
        let mut compare = CompareOptions::default();
        let mut args = args;
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--rounds" => rounds = Some(value(&arg, args.next(), |rounds: &usize| *rounds > 0)?),
                "--seconds" => seconds = Some(value(&arg, args.next(), |s: &f64| (0.001..=3600.0).contains(s))?),
                "--quick" => quick = true,
                "--write-docs" => compare.write_docs = true,
                "--minutes" => compare.minutes = Some(value(&arg, args.next(), |m: &f64| (0.1..=600.0).contains(m))?),
                "--from" => compare.from = Some(value(&arg, args.next(), |_: &PathBuf| true)?),
                "--baseline" => compare.baseline = Some(value(&arg, args.next(), |_: &PathBuf| true)?),
                "--only" => compare.only = Some(value(&arg, args.next(), |letters: &String| are_scenarios(letters))?),
                _ if arg.starts_with('-') => return Err(Usage(format!("there is no option {arg}"))),
                _ if scenario.is_some() => return Err(Usage("one scenario at a time".to_owned())),
                _ => {
                    let known = Scenario::ALL.iter().find(|(_, name, _)| *name == arg);
                    let (known, ..) = known.ok_or_else(|| Usage(format!("there is no scenario {arg:?}")))?;
                    scenario = Some(*known);
                }
            }
        }
        let scenario = scenario.ok_or_else(|| Usage("which scenario?".to_owned()))?;
        match scenario {
            Scenario::Compare if rounds.is_some() || seconds.is_some() => {
                return Err(Usage("compare has its own rounds and times; there is --quick".to_owned()));
            }
            Scenario::Compare => {}
            _ if compare != CompareOptions::default() => {
                return Err(Usage("--only, --minutes, --from, --baseline and --write-docs are for compare".to_owned()));
            }
            _ => {}
        }
        Ok(Self {
            scenario,
            rounds: rounds.unwrap_or(if quick { 2 } else { 5 }),
            time: Duration::from_secs_f64(seconds.unwrap_or(if quick { 0.3 } else { 3.0 })),
            quick,
            compare,
        })
    }
}

fn value<T: FromStr>(name: &str, text: Option<String>, fits: impl Fn(&T) -> bool) -> Result<T, Usage> {
    let text = text.ok_or_else(|| Usage(format!("{name} needs a value")))?;
    text.parse().ok().filter(fits).ok_or_else(|| Usage(format!("{name} {text}: that is nothing that makes sense")))
}

fn are_scenarios(letters: &str) -> bool {
    !letters.is_empty() && letters.chars().all(|letter| ('A'..='H').contains(&letter.to_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &str) -> Result<Options, Usage> {
        Options::parse(args.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_scenario_is_enough() {
        let time = Duration::from_secs(3);
        assert_eq!(
            parse("read"),
            Ok(Options { scenario: Scenario::Read, rounds: 5, time, quick: false, compare: CompareOptions::default() })
        );
    }

    #[test]
    fn options_win_over_quick() {
        let time = Duration::from_millis(1_500);
        let expected =
            Options { scenario: Scenario::Append, rounds: 7, time, quick: true, compare: CompareOptions::default() };
        assert_eq!(parse("--rounds 7 append --seconds 1.5 --quick"), Ok(expected));
    }

    #[test]
    fn a_comparison_has_its_own_options() {
        let compare = CompareOptions {
            baseline: Some("a.json".into()),
            only: Some("ag".to_owned()),
            write_docs: true,
            minutes: Some(90.0),
            from: None,
        };
        let parsed = parse("compare --baseline a.json --only ag --write-docs --minutes 90").unwrap();
        assert_eq!((parsed.scenario, parsed.compare), (Scenario::Compare, compare));
    }

    #[test]
    fn every_mistake_is_told_with_the_list_of_scenarios() {
        for args in [
            "",
            "fly",
            "read append",
            "read --rounds",
            "read --rounds 0",
            "read --seconds x",
            "read --fast",
            "read --only A",
            "compare --rounds 3",
            "compare --only X",
            "compare --baseline",
            "compare --minutes 0",
            "read --from a.json",
        ] {
            let usage = parse(args).expect_err(args).to_string();
            assert!(usage.contains("\n  append ") && usage.contains("\n  read "), "{usage}");
        }
    }
}
