//! Words that made readers stop: idioms, and people who are not named. What names a reader, a writer, a caller, a leader, a
//! standby or an operator instead says who acts.
//!
//! `words.txt` has how often each is still there, by where it stands. Counts only go down. After rewriting,
//! `HIGHWATER_LOWER_WORDS=1 cargo test -p highwater --test tidy` lowers them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::source::{RUST, Source, manual, read, root};

const BASELINE: &str = "crates/highwater/tests/tidy/words.txt";

const WORDS: [&str; 19] = [
    "takes in",
    "took in",
    "mended",
    "does without",
    "done without",
    "goes on",
    "tried again",
    "lets go",
    "let go",
    "whoever",
    "somebody",
    "one's own",
    "of its own accord",
    "does not get on",
    "mouth",
    "deaf",
    "desk",
    "stride",
    "wish",
];

/// By kind of text and word: the file, and the line on which the text begins.
type Found = BTreeMap<(&'static str, &'static str), Vec<String>>;

#[test]
fn words_that_readers_stumble_over_become_fewer() {
    let found = found();
    let baseline: BTreeMap<(String, String), usize> = read(BASELINE).lines().map(counted).collect();
    let mut grown = String::new();
    for ((kind, word), places) in &found {
        let before = baseline.get(&((*kind).to_owned(), (*word).to_owned())).copied().unwrap_or(0);
        if places.len() > before {
            writeln!(grown, "{:?} in {kind}, {} instead of {before}: {places:#?}", word, places.len())
                .expect("a String");
        }
    }
    assert!(grown.is_empty(), "say who acts, and in plain words:\n{grown}");
    let now: String =
        found.iter().map(|((kind, word), places)| format!("{kind}: {word}: {}\n", places.len())).collect();
    if std::env::var_os("HIGHWATER_LOWER_WORDS").is_some() {
        std::fs::write(root().join(BASELINE), &now).expect("the repository can be written to");
    }
    assert_eq!(read(BASELINE), now, "they are fewer now: HIGHWATER_LOWER_WORDS=1 lowers the counts in {BASELINE}");
}

/// A line of the baseline: `kind: word: count`.
fn counted(line: &str) -> ((String, String), usize) {
    let parts: Vec<&str> = line.split(": ").collect();
    let [kind, word, count] = parts[..] else { panic!("{BASELINE}: {line:?} is not `kind: word: count`") };
    let count = count.parse().unwrap_or_else(|_| panic!("{BASELINE}: {count:?} is not a number"));
    ((kind.to_owned(), word.to_owned()), count)
}

fn found() -> Found {
    let mut found = Found::new();
    for file in manual() {
        let mut line = 0;
        for paragraph in file.text.split("\n\n") {
            look(&mut found, "manual", &file, line, paragraph);
            line += paragraph.matches('\n').count() + 2;
        }
    }
    for file in RUST.iter() {
        for (line, text) in doc_comments(&file.text) {
            look(&mut found, "documentation", file, line, &text);
        }
        for (line, text) in public_names(&file.text) {
            look(&mut found, "public names", file, line, &text);
        }
        for (line, text) in literals(&file.text, "tracing::", "!(") {
            look(&mut found, "log lines", file, line, &text);
        }
        for (line, text) in literals(&file.text, "#[error", "(") {
            look(&mut found, "error texts", file, line, &text);
        }
    }
    found
}

fn look(found: &mut Found, kind: &'static str, file: &Source, line: usize, text: &str) {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    for word in WORDS {
        for _ in 0..times(&text, word) {
            found.entry((kind, word)).or_default().push(format!("{}:{}", file.path, line + 1));
        }
    }
}

/// How often a word stands in a text as a word, also in the plural.
fn times(text: &str, word: &str) -> usize {
    let is_letter = |letter: char| letter.is_alphanumeric();
    let whole = |(at, _): &(usize, &str)| {
        let end = text[at + word.len()..].split(|letter| !is_letter(letter)).next().unwrap_or_default();
        !text[..*at].ends_with(is_letter) && ["", "s", "es"].contains(&end)
    };
    text.match_indices(word).filter(whole).count()
}

/// Comments that rustdoc shows, each as a whole: a phrase may go over the end of a line.
fn doc_comments(text: &str) -> Vec<(usize, String)> {
    let mut blocks: Vec<(usize, String)> = Vec::new();
    let mut last = None;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let Some(comment) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else { continue };
        match blocks.last_mut() {
            Some((_, block)) if last.is_some_and(|last: usize| last + 1 == at) => *block += &format!(" {comment}"),
            _ => blocks.push((at, comment.to_owned())),
        }
        last = Some(at);
    }
    blocks
}

/// What is declared `pub`, as words: `DeadLetterQueue` is `dead letter desk`.
fn public_names(text: &str) -> Vec<(usize, String)> {
    const KINDS: [&str; 9] = ["async", "const", "enum", "fn", "mod", "static", "struct", "trait", "type"];
    let name = |line: &str| -> Option<String> {
        let mut words = line.trim_start().strip_prefix("pub ")?.split_whitespace();
        let name = words.find(|word| !KINDS.contains(word))?;
        let name = name.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
        let apart = name.chars().flat_map(|letter| match letter {
            '_' => vec![' '],
            letter if letter.is_uppercase() => vec![' ', letter],
            letter => vec![letter],
        });
        Some(apart.collect())
    };
    text.lines().enumerate().filter_map(|(at, line)| Some((at, name(line)?))).collect()
}

/// The string literals in calls that begin so, as in `tracing::warn!("…")` and `#[error("…")]`.
fn literals(text: &str, before: &str, open: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(before) {
        let name_end = text[at + before.len()..].find(|letter: char| !letter.is_alphanumeric());
        let Some(start) = name_end.map(|end| at + before.len() + end) else { continue };
        if !text[start..].starts_with(open) {
            continue;
        }
        let line = text[..at].matches('\n').count();
        let (mut depth, mut literal, mut escaped) = (0_usize, None::<String>, false);
        for letter in text[start..].chars().skip(open.len() - 1) {
            match (&mut literal, letter) {
                (Some(_), '\\') if !escaped => escaped = true,
                (Some(_), '"') if !escaped => found.extend(literal.take().map(|literal| (line, literal))),
                (Some(inside), letter) => {
                    inside.push(letter);
                    escaped = false;
                }
                (None, '"') => literal = Some(String::new()),
                (None, '(') => depth += 1,
                (None, ')') if depth == 1 => break,
                (None, ')') => depth -= 1,
                (None, _) => {}
            }
        }
    }
    found
}

#[test]
fn texts_are_found_where_they_stand() {
    let text = "/// Lets\n/// go.\npub struct DeadLetterQueue;\n// not\n//! shown\nfn a() {\n    tracing::warn!(at = at(1), \"one \\\"two\\\"\");\n}\n#[error(\"{0} (three)\")]\n";
    assert_eq!(doc_comments(text), [(0, " Lets  go.".to_owned()), (4, " shown".to_owned())]);
    assert_eq!(public_names(text), [(2, " Dead Letter Queue".to_owned())]);
    assert_eq!(literals(text, "tracing::", "!("), [(6, "one \"two\"".to_owned())]);
    assert_eq!(literals(text, "#[error", "("), [(8, "{0} (three)".to_owned())]);
    assert_eq!((times("a wish, two wishes, wishful", "wish"), times("whoever", "who")), (2, 0));
}
