//! What documents say of the code is there.

use crate::source::{RUST, names, read};

/// Between backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

#[test]
fn functions_that_the_models_stand_for_exist() {
    let text = read("models/README.md");
    let named: Vec<_> = text.lines().flat_map(quoted).filter_map(|name| name.split_once("::")).collect();
    assert!(named.len() > 20, "the tables of rules name functions");
    for (owner, function) in named {
        // Of one file; as a function, or as a variant.
        let words = |line: &'static str| line.split(|c: char| !c.is_alphanumeric() && c != '_');
        let has = |line: &'static str, name: &str| line.contains(name) && words(line).any(|word| word == name);
        let declaration = format!("fn {function}");
        let declared = |line: &&str| line.trim().starts_with(function) || line.contains(&declaration);
        let there = RUST.iter().any(|file| {
            file.text.lines().any(|line| has(line, owner))
                && file.text.lines().filter(declared).any(|line| has(line, function))
        });
        assert!(there, "models/README.md names {owner}::{function}, which is nowhere");
    }
}

#[test]
fn files_on_the_map_exist_and_all_are_on_it() {
    let map = read("ARCHITECTURE.md");
    for name in ["highwater", "highwater-postgres", "highwater-sqlite", "highwater-cli", "highwater-demo"] {
        let section = map.split(&format!("\n## {name}\n")).nth(1).expect("each of these has a section");
        let section = section.split("\n## ").next().unwrap_or_default();
        let there = names(&format!("crates/{name}/src"));
        for file in there.iter().filter(|file| file.ends_with(".rs") && !["lib.rs", "main.rs"].contains(&file.as_str()))
        {
            assert!(quoted(section).any(|quoted| quoted == file), "crates/{name}/src/{file} is not on the map");
        }
        for quoted in quoted(section).filter(|quoted| quoted.ends_with(".rs")) {
            let known =
                RUST.iter().any(|source| source.path.contains(name) && source.path.ends_with(&format!("/{quoted}")));
            assert!(known, "ARCHITECTURE.md names {quoted} in {name}, which is not there");
        }
    }
}

#[test]
fn lines_that_operators_are_told_of_are_logged() {
    let text = read("docs/operating.md");
    let section =
        text.split("\n## What it logs\n").nth(1).and_then(|text| text.split("\n## ").next()).unwrap_or_default();
    let lines: Vec<_> = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).collect();
    assert!(lines.len() > 5, "there is a table");
    for (line, _) in lines {
        let quoted = format!("{line:?}");
        assert!(RUST.iter().any(|file| file.is_in_src() && file.text.contains(&quoted)), "nothing logs {line:?}");
    }
}
