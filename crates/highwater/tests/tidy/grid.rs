//! Contracts are the rows and backends the columns: who knows one cell finds the others.

use crate::source::{RUST, read, root};

/// `transactions` is the fenced transaction.
const ROWS: [&str; 9] =
    ["log", "wakeups", "checkpoints", "leadership", "dead_letters", "requests", "transfer", "diagnose", "transactions"];

const COLUMNS: [&str; 5] = [
    "crates/highwater/src",
    "crates/highwater/src/memory",
    "crates/highwater-sqlite/src",
    "crates/highwater-postgres/src",
    "crates/highwater-contract/src",
];

/// Where the contracts are, by the names of their traits.
const TRAITS: [(&str, &str); 9] = [
    ("Log", "log"),
    ("Wakeups", "wakeups"),
    ("Checkpoints", "checkpoints"),
    ("Leadership", "leadership"),
    ("DeadLetters", "dead_letters"),
    ("Requests", "requests"),
    ("Transfer", "transfer"),
    ("Diagnose", "diagnose"),
    ("Backend", "backend"),
];

#[test]
fn every_contract_has_the_same_file_in_every_column() {
    let cells = ROWS.iter().flat_map(|row| COLUMNS.map(|column| format!("{column}/{row}.rs")));
    let missing: Vec<String> = cells.filter(|cell| !root().join(cell).is_file()).collect();
    assert!(missing.is_empty(), "the grid has holes: {missing:#?}");
}

#[test]
fn no_contract_has_a_method_that_a_backend_could_forget() {
    for (name, file) in TRAITS {
        let text = read(&format!("crates/highwater/src/{file}.rs"));
        let defaults = defaults(body(&text, name));
        assert!(defaults.is_empty(), "{name} has bodies for {defaults:?}: every backend has to say what it does");
    }
}

/// What stands within the braces of a trait, without comments.
fn body(text: &str, name: &str) -> String {
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let start = [":", " "].iter().find_map(|after| code.find(&format!("pub trait {name}{after}")));
    let start = start.unwrap_or_else(|| panic!("there is no trait {name}"));
    let open = start + code[start..].find('{').expect("a trait has a body");
    let mut depth = 0_usize;
    let inside = code[open..].split_inclusive(['{', '}']).take_while(|part| {
        depth = if part.ends_with('{') { depth + 1 } else { depth.saturating_sub(1) };
        depth > 0
    });
    inside.collect()
}

/// The methods whose signature ends with a body and not with a semicolon.
fn defaults(body: String) -> Vec<String> {
    let methods = body.split("fn ").skip(1);
    let with_body = methods.filter(|method| {
        // A semicolon within brackets is that of an array.
        let mut brackets = 0_i32;
        let end = method.chars().find(|letter| {
            brackets += i32::from(*letter == '[') - i32::from(*letter == ']');
            brackets == 0 && [';', '{'].contains(letter)
        });
        end == Some('{')
    });
    with_body.map(|method| method.split(['(', '<']).next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_body_is_found_where_there_is_one() {
    let text = "pub trait Some: Send {\n    // fn c() {}\n    fn a(&self) -> [u8; 2];\n    fn b<T>(&self) { if x { y } }\n}\nfn d() {}";
    assert_eq!(defaults(body(text, "Some")), ["b"]);
}

#[test]
fn every_queue_has_a_limit() {
    let programs = RUST.iter().filter(|file| file.is_in_src());
    let found: Vec<&str> = programs.filter(|file| has_no_limit(&file.text)).map(|file| file.path.as_str()).collect();
    assert_eq!(found, Vec::<String>::new(), "queues without a limit");
}

/// Where it is called by its module's name, as everywhere here, the standard library's has a limit if it is given one.
fn has_no_limit(text: &str) -> bool {
    let says_so = ["unbounded_channel", "mpsc::unbounded"].iter().any(|name| text.contains(name));
    let mut imports = text.split("mpsc::{").skip(1).filter_map(|after| after.split_once('}'));
    let by_another_name = imports.any(|(names, _)| names.split(',').any(|name| name.trim() == "channel"));
    let mut calls = text.split("mpsc::channel").skip(1);
    let without_one = calls.any(|after| {
        let arguments = after.split_once('(').map_or("", |(_, arguments)| arguments);
        after.starts_with(';') || arguments.starts_with(')')
    });
    says_so || by_another_name || without_one
}

#[test]
fn a_queue_without_a_limit_is_found() {
    assert!(has_no_limit("std::sync::mpsc::channel()") && has_no_limit("mpsc::channel::<u8>()"));
    assert!(has_no_limit("use std::sync::mpsc::{Sender, channel};") && has_no_limit("mpsc::unbounded_channel()"));
    assert!(!has_no_limit("mpsc::channel(3); oneshot::channel()"));
    assert!(!has_no_limit("use tokio::sync::mpsc::{self, Sender}; mpsc::sync_channel(1)"));
}

/// What an application sees at a glance, modules and macros included. The rest is in the modules.
const ROOT_NAMES_MAX: usize = 60;

#[test]
fn the_root_of_the_crate_stays_small() {
    let text = read("crates/highwater/src/lib.rs");
    let used = text.split("\npub use ").skip(1).flat_map(|used| {
        let (used, _) = used.split_once(';').expect("a use ends with a semicolon");
        let (_, names) = used.rsplit_once("::").expect("it names what is in a module");
        names.trim_matches(['{', '}', '\n', ' ']).split(',').map(str::trim).filter(|name| !name.is_empty())
    });
    let modules = text.split("\npub mod ").skip(1).filter_map(|module| module.split([';', ' ']).next());
    let sources = RUST.iter().filter(|file| file.path.starts_with("crates/highwater/src/"));
    let macros = sources.flat_map(|file| file.text.split("#[macro_export]").skip(1)).filter_map(|after| {
        let (_, after) = after.split_once("macro_rules! ")?;
        after.split(' ').next()
    });
    let names: Vec<&str> = used.chain(modules).chain(macros).collect();
    for name in ["Append", "EventBus", "backend", "prelude", "for_each_tx"] {
        assert!(names.contains(&name), "{name} is there: {names:?}");
    }
    assert!(names.len() <= ROOT_NAMES_MAX, "{} names; move some into a module: {names:?}", names.len());
}
