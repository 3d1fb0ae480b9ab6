//! Words that made readers stop: idioms, and people who are not named. What names a reader, a writer, a caller, a leader, a
//! standby or an operator instead says who acts.

use std::collections::BTreeSet;

use crate::source::{RUST, with_ending};
use crate::tokens::{Kind, tokens};

/// In every text and in every name. `…` stands for up to two words.
const WORDS: [&str; 31] = [
    "take in",
    "taking in",
    "took in",
    "mend",
    "does without",
    "done without",
    "go on",
    "going on",
    "went on",
    "try again",
    "tries … again",
    "trying … again",
    "tried … again",
    "let … go",
    "letting … go",
    "whoever",
    "somebody",
    "one's own",
    "of its own accord",
    // It is dedicated.
    "session of its own",
    "does not get on",
    "mouth",
    "ear",
    "deaf",
    "hearing",
    "desk",
    "seat",
    "stride",
    "wish",
    // A dead letter is meant.
    "letter",
    "how manieth",
];

/// What types and fields are not called, though verbs and texts may be.
const NOUNS: [&str; 3] = ["ask", "asking", "holding"];

/// How words end that are listed without an ending: nouns, and verbs as well.
const PLURALS: &[&str] = &["", "s"];
const FORMS: &[&str] = &["", "s", "es", "ed", "ing"];

/// Where a word means something else: that one, or what begins so.
const MEANT: &[(&str, &str)] = &[
    // Of an alphabet.
    ("letter", "bench/"),
    ("letter", "crates/highwater-cli/src/arguments.rs"),
    ("letter", "crates/highwater-cli/src/commands/new.rs"),
    ("letter", "crates/highwater-contract/src/"),
    ("letter", "crates/highwater-demo/src/place.rs"),
    ("letter", "crates/highwater-sqlite/tests/sqlite/opening.rs"),
    ("letter", "crates/throwaway-postgres/src/process.rs"),
    ("letter", "docs/guarantees.md"),
    ("letter", "fuzz/src/tokens.rs"),
    ("letter", "pages/src/lib.rs"),
    // Of contestants, by a protocol of questions and answers.
    ("ask", "bench/"),
];

#[test]
fn texts_and_names_are_in_plain_words() {
    let (mut found, mut meant) = (Vec::new(), BTreeSet::new());
    for Text { path, line, text, nouns } in texts() {
        let small = text.to_lowercase();
        let begins = |phrase: &&str| phrase.split(' ').next().is_some_and(|word| small.contains(word));
        let listed =
            WORDS.iter().map(|word| (word, FORMS)).chain(NOUNS.iter().filter(|_| nouns).map(|noun| (noun, PLURALS)));
        let candidates: Vec<_> = listed.filter(|(word, _)| begins(word)).collect();
        if candidates.is_empty() {
            continue;
        }
        let words = words(&text);
        for (word, _) in candidates.into_iter().filter(|(word, ends)| contains(&words, word, ends)) {
            match MEANT.iter().find(|(other, place)| word.starts_with(other) && path.starts_with(place)) {
                Some(known) => _ = meant.insert(known),
                None => found.push(format!("{word:?} in {path}:{line}: {}", words.join(" "))),
            }
        }
    }
    assert!(found.is_empty(), "say who acts, and in plain words: {found:#?}");
    let needless: Vec<_> = MEANT.iter().filter(|known| !meant.contains(known)).collect();
    assert!(needless.is_empty(), "nothing there any more, so take them off the list: {needless:?}");
}

struct Text {
    path: String,
    line: usize,
    text: String,
    /// It is the name of a type or a field, or SQL.
    nouns: bool,
}

/// Everything that people read: documents, comments, what programs say, and names, those of columns included.
fn texts() -> Vec<Text> {
    let mut texts = Vec::new();
    for file in with_ending(".md") {
        let mut line = 1;
        for paragraph in file.text.split("\n\n") {
            texts.push(Text { path: file.path.clone(), line, text: paragraph.to_owned(), nouns: false });
            line += paragraph.matches('\n').count() + 2;
        }
    }
    for file in with_ending(".sql") {
        let mut add = |(line, text), nouns| texts.push(Text { path: file.path.clone(), line, text, nouns });
        comments(&file.text, &["--"]).into_iter().for_each(|text| add(text, false));
        code(&file.text).into_iter().for_each(|text| add(text, true));
    }
    for file in RUST.iter().filter(|file| !file.is_tidy()) {
        let mut add = |(line, text): (usize, String), nouns| {
            texts.push(Text { path: file.path.clone(), line, text, nouns });
        };
        comments(&file.text, &["//!", "///", "//"]).into_iter().for_each(|text| add(text, false));
        names(&file.text).into_iter().for_each(|(line, name, noun)| add((line, name), noun));
        if file.is_in_src() {
            literals(&file.text).into_iter().for_each(|text| add(text, false));
        }
    }
    texts
}

/// The words of a text in small letters. The end of a part of a sentence is a word, too: no phrase goes over it.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut last = ' ';
    for letter in text.chars() {
        let begins = letter.is_uppercase() && last.is_lowercase();
        if begins || !(letter.is_alphanumeric() || letter == '\'') {
            words.push(String::new());
        }
        match letter {
            '.' | ',' | ';' | ':' | '!' | '?' | '(' | ')' | '"' => words.extend([letter.to_string(), String::new()]),
            letter if letter.is_alphanumeric() || letter == '\'' => {
                words.last_mut().expect("one at least").extend(letter.to_lowercase());
            }
            _ => {}
        }
        last = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether a phrase stands in a text, its words with one of these endings.
fn contains(words: &[String], phrase: &str, ends: &[&str]) -> bool {
    let parts: Vec<&str> = phrase.split(' ').collect();
    (0..words.len()).any(|at| {
        let dead = phrase.starts_with("letter") && at > 0 && words[at - 1] == "dead";
        !dead && begins(&words[at..], &parts, ends)
    })
}

fn begins(words: &[String], parts: &[&str], ends: &[&str]) -> bool {
    match (parts, words) {
        ([], _) => true,
        (["…", rest @ ..], _) => (0..=2.min(words.len())).any(|skip| {
            words[..skip].iter().all(|word| word.chars().all(char::is_alphanumeric))
                && begins(&words[skip..], rest, ends)
        }),
        ([part, rest @ ..], [word, others @ ..]) => {
            let same = word.strip_prefix(part).is_some_and(|end| ends.contains(&end));
            same && begins(others, rest, ends)
        }
        (_, []) => false,
    }
}

/// Comments, each block as a whole: a phrase may go over the end of a line.
fn comments(text: &str, marks: &[&str]) -> Vec<(usize, String)> {
    let mut blocks: Vec<(usize, String)> = Vec::new();
    let mut last = None;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let Some(comment) = marks.iter().find_map(|mark| line.strip_prefix(mark)) else { continue };
        match blocks.last_mut() {
            Some((_, block)) if last.is_some_and(|last: usize| last + 1 == at) => *block += &format!(" {comment}"),
            _ => blocks.push((at + 1, comment.to_owned())),
        }
        last = Some(at);
    }
    blocks
}

/// SQL without its comments and quotes: statements name columns in texts, too.
fn code(text: &str) -> Vec<(usize, String)> {
    let lines = text.lines().map(|line| line.split_once("--").map_or(line, |(code, _)| code));
    lines.enumerate().map(|(at, code)| (at + 1, code.replace('\'', " "))).collect()
}

/// What is declared: items, fields and variants, by how their lines begin. True where it is a type's, a field's or a
/// variant's name.
fn names(text: &str) -> Vec<(usize, String, bool)> {
    const ITEMS: [(&str, bool); 8] = [
        ("fn ", false),
        ("mod ", false),
        ("const ", false),
        ("enum ", true),
        ("static ", false),
        ("struct ", true),
        ("trait ", true),
        ("type ", true),
    ];
    let name = |line: &str| -> Option<(String, bool)> {
        let mut rest = line.trim_start();
        if let Some(after) = rest.strip_prefix("pub") {
            rest = after.strip_prefix(' ').or_else(|| Some(after.split_once(") ")?.1))?;
        }
        rest = rest.trim_start_matches("async ").trim_start_matches("const fn ");
        let (item, rest) = match ITEMS.iter().find(|(item, _)| rest.starts_with(item)) {
            Some((item, noun)) => (Some(*noun), &rest[item.len()..]),
            None => (None, rest),
        };
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let is_field = after.starts_with(": ");
        let is_variant =
            name.starts_with(char::is_uppercase) && [",", "(", " {"].iter().any(|it| after.starts_with(it));
        match item {
            Some(noun) => Some((name.to_owned(), noun)),
            None => (is_field || is_variant).then(|| (name.to_owned(), true)),
        }
    };
    let lines = text.lines().enumerate();
    lines.filter_map(|(at, line)| name(line).map(|(name, noun)| (at + 1, name, noun))).collect()
}

/// What programs say. A word alone is a name of something: of a column, or of a field.
fn literals(text: &str) -> Vec<(usize, String)> {
    let mut line = 1;
    let mut found = Vec::new();
    for (kind, token) in tokens(text) {
        if kind == Kind::Literal && token.contains(' ') {
            found.push((line, token.replace("\\n", " ").replace("\\\"", " ")));
        }
        line += token.matches('\n').count();
    }
    found
}

#[test]
fn texts_are_found_where_they_stand() {
    let text = "/// Lets it\n/// go.\npub struct DeadLetterQueue;\n// so\nenum A {\n    Letter { ask: u8 },\n}\n    pub(crate) async fn let_go() {\n        \"one \\\"two\\\"\"; // not\n";
    let of =
        |found: Vec<(usize, String)>| found.into_iter().map(|(line, text)| format!("{line}{text}")).collect::<Vec<_>>();
    assert_eq!(of(comments(text, &["///", "//"])), ["1 Lets it  go.", "4 so"]);
    let found: Vec<_> = names(text).into_iter().map(|(line, name, noun)| format!("{line} {name} {noun}")).collect();
    assert_eq!(found, ["3 DeadLetterQueue true", "5 A true", "6 Letter true", "8 let_go false"]);
    assert_eq!(of(literals(text)), ["9\"one  two \""]);
    assert_eq!(of(code("-- a\n    'ask' text, -- b")), ["1", "2     ask  text, "]);
}

#[test]
fn phrases_are_found_in_texts_and_names() {
    let has = |text: &str, phrase: &str| contains(&words(text), phrase, FORMS);
    assert!(has("two wishes", "wish") && !has("wishful", "wish") && !has("whoever", "who"));
    assert!(has("nobody wished", "wish") && has("seated()", "seat") && !has("wishful", "wish"));
    assert!(has("it lets some go", "let … go") && has("let_go", "let … go") && has("LetGo", "let … go"));
    assert!(
        !has("let x = a; go", "let … go") && !has("where it goes. On Linux", "go on") && has("it goes on", "go on")
    );
    assert!(has("a letter", "letter") && has("letters_archive", "letter") && has("LetterAttempt", "letter"));
    assert!(!has("dead letters", "letter") && !has("DeadLetters", "letter") && !has("`dead-letters`", "letter"));
}
