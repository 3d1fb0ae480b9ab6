//! Shows what goes wrong without a rule: `cargo run -p highwater-models -- --without term_is_checked`.

use std::fmt::Debug;
use std::hash::Hash;
use std::process::ExitCode;

use highwater_models::leadership::{self, Leadership};
use highwater_models::log::{self, Log};
use highwater_models::{Counterexample, counterexample};
use stateright::Model;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rule = match &arguments[..] {
        [flag, rule] if flag == "--without" => rule,
        _ => return usage(),
    };
    if let Some((model, property)) = Log::without(rule) {
        tell(Log { alike: false, ..model }, property)
    } else if let Some((model, property)) = Leadership::without(rule) {
        tell(Leadership { alike: false, ..model }, property)
    } else {
        usage()
    }
}

/// A short history that goes wrong: what happened, and what it was like in the end.
fn tell<M>(model: M, property: &'static str) -> ExitCode
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let Some(Counterexample { actions, end }) = counterexample(model, property) else {
        eprintln!("nothing goes wrong: {property}");
        return ExitCode::FAILURE;
    };
    println!("violated: {property}\n");
    for (number, action) in (1..).zip(&actions) {
        println!("{number:>3}. {action:?}");
    }
    println!("\n{end:#?}");
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: highwater-models --without RULE\n\nrules of the log: {}", log::Rules::NAMES.join(", "));
    eprintln!("\nrules of leadership: {}", leadership::Rules::NAMES.join(", "));
    ExitCode::FAILURE
}
