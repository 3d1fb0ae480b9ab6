//! Rust as far as checks need it: what is code, what a comment, what a literal.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Code,
    Comment,
    /// Of a string.
    Literal,
}

/// The parts of a text, in order and without gaps.
pub(crate) fn tokens(text: &str) -> Vec<(Kind, &str)> {
    let mut found = Vec::new();
    let (mut rest, mut code) = (text, text);
    while let Some(first) = rest.chars().next() {
        let special = match first {
            '/' if rest.starts_with("//") => Some((Kind::Comment, rest.find('\n').unwrap_or(rest.len()))),
            '"' => Some((Kind::Literal, 1 + closing(&rest[1..]))),
            'r' if is_raw(rest) && !is_in_a_word(text, rest) => {
                let hashes = rest[1..].chars().take_while(|hash| *hash == '#').count();
                let end = format!("\"{}", "#".repeat(hashes));
                let begin = hashes + 2;
                Some((Kind::Literal, rest[begin..].find(&end).map_or(rest.len(), |at| begin + at + end.len())))
            }
            _ => None,
        };
        let Some((kind, length)) = special else {
            rest = &rest[skipped(rest)..];
            continue;
        };
        let before = code.len() - rest.len();
        if before > 0 {
            found.push((Kind::Code, &code[..before]));
        }
        found.push((kind, &rest[..length]));
        rest = &rest[length..];
        code = rest;
    }
    if !code.is_empty() {
        found.push((Kind::Code, code));
    }
    found
}

fn is_raw(rest: &str) -> bool {
    rest[1..].trim_start_matches('#').starts_with('"')
}

fn is_in_a_word(text: &str, rest: &str) -> bool {
    text[..text.len() - rest.len()].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_')
}

/// Where a string ends, with its quote.
fn closing(text: &str) -> usize {
    let mut escaped = false;
    let end = text.char_indices().find(|(_, letter)| {
        let ends = *letter == '"' && !escaped;
        escaped = *letter == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// A letter of code; a character in quotes is one, too.
fn skipped(rest: &str) -> usize {
    let quoted = |length: usize| rest.get(length - 1..length) == Some("'");
    let after = rest.chars().nth(1).map_or(1, char::len_utf8);
    match rest.as_bytes() {
        [b'\'', b'\\', ..] => rest[2..].char_indices().skip(1).find(|(_, it)| *it == '\'').map_or(1, |(at, _)| at + 3),
        [b'\'', ..] if quoted(after + 2) => after + 2,
        _ => rest.chars().next().map_or(1, char::len_utf8),
    }
}

#[test]
fn code_comments_and_literals_are_told_apart() {
    let text = "a('\"', '\\'', '\\\\', b'x') // \"c\"\nlet x: &'a str = \"s \\\" //\"; for \"t\" r#\"u\"v\"#;";
    let found: Vec<_> = tokens(text).into_iter().filter(|(kind, _)| *kind != Kind::Code).map(|(_, it)| it).collect();
    assert_eq!(found, ["// \"c\"", "\"s \\\" //\"", "\"t\"", "r#\"u\"v\"#"]);
    assert_eq!(tokens(text).iter().map(|(_, it)| *it).collect::<String>(), text);
}
