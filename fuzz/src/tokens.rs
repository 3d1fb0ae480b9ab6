//! SQL text, taken apart as PostgreSQL does it, as far as quoting goes. Written from its manual ("Lexical Structure") and not
//! from ours: it is the other opinion.

/// A piece of SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// `"a ""name"""`, as the name that it means.
    Quoted(String),
    /// `'a ''text'''`, as the text that it means.
    Literal(String),
    /// `$tag$ … $tag$`, with what stands between.
    Dollars(String, String),
    /// Letters, digits and underscores.
    Word(String),
    /// Anything else that is not space or a comment.
    Sign(char),
}

/// Takes SQL text apart.
///
/// # Errors
/// When something in quotes, or a comment, does not end.
pub fn tokens(sql: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, rest)| rest);
        } else if rest.starts_with("/*") {
            rest = after_comment(rest)?;
        } else if first == '"' || first == '\'' {
            let (text, after) = quoted(&rest[1..], first)?;
            tokens.push(if first == '"' { Token::Quoted(text) } else { Token::Literal(text) });
            rest = after;
        } else if let Some((tag, after)) = dollars(rest) {
            let (body, after) = after.split_once(&tag).ok_or_else(|| format!("{tag} does not end"))?;
            tokens.push(Token::Dollars(tag, body.to_owned()));
            rest = after;
        } else if is_word(first) {
            let end = rest.find(|c| !is_word(c) && c != '$').unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        } else {
            if !first.is_whitespace() {
                tokens.push(Token::Sign(first));
            }
            rest = &rest[first.len_utf8()..];
        }
    }
    Ok(tokens)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii()
}

/// What is in quotes, and what follows them. The quote itself stands there twice.
fn quoted(text: &str, quote: char) -> Result<(String, &str), String> {
    let mut found = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once(quote).ok_or_else(|| format!("{quote}{text} does not end"))?;
        found.push_str(before);
        match after.strip_prefix(quote) {
            Some(more) => {
                found.push(quote);
                rest = more;
            }
            None => return Ok((found, after)),
        }
    }
}

/// `$tag$`, and what follows. `$1` is none.
fn dollars(text: &str) -> Option<(String, &str)> {
    let after = text.strip_prefix('$')?;
    let end = after.find('$')?;
    let tag = &after[..end];
    let sound = tag.chars().all(is_word) && !tag.starts_with(|c: char| c.is_ascii_digit());
    sound.then(|| (format!("${tag}$"), &after[end + 1..]))
}

/// Comments may stand in comments.
fn after_comment(text: &str) -> Result<&str, String> {
    let (mut depth, mut rest) = (0, text);
    loop {
        let next = rest.find(['/', '*']).ok_or("a comment does not end")?;
        rest = &rest[next..];
        if let Some(after) = rest.strip_prefix("/*") {
            (depth, rest) = (depth + 1, after);
        } else if let Some(after) = rest.strip_prefix("*/") {
            (depth, rest) = (depth - 1, after);
        } else {
            rest = &rest[1..];
        }
        if depth == 0 {
            return Ok(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_dollars_and_comments_are_what_postgresql_says() {
        let sql = "SELECT \"a \"\"b\"\"\" || 'it''s' || $1 -- \"no\n/* a /* b */ ' */ $x$ \" ' $$ $x$;";
        let expected = [
            Token::Word("SELECT".to_owned()),
            Token::Quoted("a \"b\"".to_owned()),
            Token::Sign('|'),
            Token::Sign('|'),
            Token::Literal("it's".to_owned()),
            Token::Sign('|'),
            Token::Sign('|'),
            Token::Sign('$'),
            Token::Word("1".to_owned()),
            Token::Dollars("$x$".to_owned(), " \" ' $$ ".to_owned()),
            Token::Sign(';'),
        ];
        assert_eq!(tokens(sql).as_deref(), Ok(&expected[..]));
        for open in ["\"a", "'a''", "$x$ $y$", "/* /* */"] {
            assert!(tokens(open).is_err(), "{open}");
        }
    }
}
