//! What was asked for.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

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
    Sqlite,
}

impl Scenario {
    const ALL: [(Self, &'static str, &'static str); 8] = [
        (Self::Append, "append", "storing events: 32 and 256 callers, a lone one, batches of 100"),
        (Self::Read, "read", "reading events: the whole log, one stream"),
        (Self::CatchUp, "catchup", "delivering what is there: counting, in transactions, a checkpoint each"),
        (Self::Latency, "latency", "delivering what is new: to another process, 100 events a second"),
        (Self::Subscribers, "subscribers", "many subscribers in one process: 1 to 200, 1,000 events a second"),
        (Self::Memory, "memory", "memory of a subscriber that is two million events behind"),
        (Self::Failover, "failover", "another instance goes on: after a crash, a stop and a hang; one that stands by"),
        (Self::Sqlite, "sqlite", "in a SQLite file: appending, catching up, what an idle process costs"),
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
}

/// Why the arguments do not do.
#[derive(Debug, PartialEq)]
pub(crate) struct Usage(String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.0)?;
        writeln!(f, "usage: bench/run SCENARIO [--rounds N] [--seconds S] [--quick]")?;
        write!(f, "scenarios:")?;
        Scenario::ALL.iter().try_for_each(|(_, name, what)| write!(f, "\n  {name:13}{what}"))
    }
}

impl Options {
    pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Self, Usage> {
        let (mut scenario, mut rounds, mut seconds, mut quick) = (None, None, None, false);
        let mut args = args;
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--rounds" => rounds = Some(value(&arg, args.next(), |rounds: &usize| *rounds > 0)?),
                "--seconds" => seconds = Some(value(&arg, args.next(), |s: &f64| (0.001..=3600.0).contains(s))?),
                "--quick" => quick = true,
                _ if arg.starts_with('-') => return Err(Usage(format!("there is no option {arg}"))),
                _ if scenario.is_some() => return Err(Usage("one scenario at a time".to_owned())),
                _ => {
                    let known = Scenario::ALL.iter().find(|(_, name, _)| *name == arg);
                    let (known, ..) = known.ok_or_else(|| Usage(format!("there is no scenario {arg:?}")))?;
                    scenario = Some(*known);
                }
            }
        }
        Ok(Self {
            scenario: scenario.ok_or_else(|| Usage("which scenario?".to_owned()))?,
            rounds: rounds.unwrap_or(if quick { 2 } else { 5 }),
            time: Duration::from_secs_f64(seconds.unwrap_or(if quick { 0.3 } else { 3.0 })),
            quick,
        })
    }
}

fn value<T: FromStr>(name: &str, text: Option<String>, fits: impl Fn(&T) -> bool) -> Result<T, Usage> {
    let text = text.ok_or_else(|| Usage(format!("{name} needs a number")))?;
    text.parse().ok().filter(fits).ok_or_else(|| Usage(format!("{name} {text}: that is no number that makes sense")))
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
        assert_eq!(parse("read"), Ok(Options { scenario: Scenario::Read, rounds: 5, time, quick: false }));
    }

    #[test]
    fn options_win_over_quick() {
        let time = Duration::from_millis(1_500);
        let expected = Options { scenario: Scenario::Append, rounds: 7, time, quick: true };
        assert_eq!(parse("--rounds 7 append --seconds 1.5 --quick"), Ok(expected));
    }

    #[test]
    fn every_mistake_is_told_with_the_list_of_scenarios() {
        for args in ["", "fly", "read append", "read --rounds", "read --rounds 0", "read --seconds x", "read --fast"] {
            let usage = parse(args).expect_err(args).to_string();
            assert!(usage.contains("\n  append ") && usage.contains("\n  read "), "{usage}");
        }
    }
}
