//! A name says what it is of: `TailState`, not one `State` among many.

use std::collections::BTreeMap;

use crate::source::RUST;

/// Says little by itself, so a crate has one of them at most.
const SAY_LITTLE: [&str; 10] =
    ["State", "Held", "Within", "Found", "Holder", "Shared", "Pace", "Want", "Refused", "Look"];

#[test]
fn types_that_say_little_by_their_names_are_one_in_a_crate() {
    let mut found: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for file in RUST.iter().filter(|file| !file.is_tidy()) {
        for name in SAY_LITTLE.iter().filter(|name| declares(&file.text, &["struct", "enum", "trait"], name)) {
            found.entry((package(&file.path), name)).or_default().push(&file.path);
        }
    }
    found.retain(|_, paths| paths.len() > 1);
    assert!(found.is_empty(), "name what they are of: {found:#?}");
}

/// What is looked at, and what comes of it, is the name.
#[test]
fn no_function_just_looks() {
    let looks = RUST.iter().filter(|file| !file.is_tidy() && declares(&file.text, &["fn"], "look"));
    let found: Vec<&str> = looks.map(|file| file.path.as_str()).collect();
    assert!(found.is_empty(), "say what is looked at: {found:#?}");
}

fn declares(text: &str, items: &[&str], name: &str) -> bool {
    text.lines().filter(|line| line.contains(name)).any(|line| {
        let mut words = line.split([' ', '(', '<', '{', ';', ':']).skip_while(|word| !items.contains(word));
        !line.trim_start().starts_with("//") && words.nth(1) == Some(name)
    })
}

/// The folder in which `src` and `tests` are.
fn package(path: &str) -> &str {
    let ends = ["/src/", "/tests/", "/examples/"].iter().filter_map(|folder| path.find(folder));
    &path[..ends.min().unwrap_or(0)]
}

#[test]
fn declarations_are_found() {
    let text = "    pub(super) struct State<'a> {\n// enum Found\n    async fn look(&self) {}\nlet enum_x = Held;";
    assert!(declares(text, &["struct"], "State") && declares(text, &["fn"], "look"));
    assert!(!declares(text, &["enum", "struct"], "Found") && !declares(text, &["enum"], "Held"));
    assert_eq!(package("crates/highwater/src/bus.rs"), "crates/highwater");
}
