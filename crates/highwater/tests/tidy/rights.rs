//! Functions that run with their owner's rights leave no name to the search path of their caller, who could have put something
//! of its own there: a type among its temporary objects, a function or an operator in a schema before PostgreSQL's.

use crate::source::{names, read};

/// Types that PostgreSQL's grammar knows, so that nothing else can be meant.
const TYPES: [&str; 8] = ["bigint", "boolean", "integer", "numeric", "real", "smallint", "timestamp", "varchar"];
/// What may stand before a parenthesis without being a function.
const WORDS: [&str; 17] = [
    "ALL",
    "AND",
    "ANY",
    "ARRAY",
    "EXISTS",
    "FROM",
    "HAVING",
    "IF",
    "IN",
    "NOT",
    "OPERATOR",
    "OR",
    "OVER",
    "VALUES",
    "WHEN",
    "RETURNING",
    "coalesce",
];
/// Where names may be found.
const PLACES: [&str; 2] = ["pg_catalog", "{schema}"];

#[test]
fn functions_with_their_owners_rights_name_everything_in_full_or_set_their_search_path() {
    let folder = "crates/highwater-postgres/migrations";
    let text: String = names(folder).iter().map(|file| read(&format!("{folder}/{file}"))).collect();
    let all = functions(&text);
    // What they call runs with the same rights.
    let reached = |one: &&Function<'_>| one.definer || all.iter().any(|by| by.definer && by.calls(one));
    let mut looked = 0;
    for function in all.iter().filter(reached).filter(|function| !function.sets_path) {
        looked += 1;
        let found = careless(function.body);
        assert!(found.is_empty(), "{}: {found:?} may mean something of the caller's", function.name);
    }
    assert!(looked > 1, "there are such functions");
}

#[test]
fn what_could_mean_something_of_the_callers_is_found() {
    for (body, found) in [
        ("DECLARE a text; BEGIN END", "text"),
        ("DECLARE a uuid[] := b; BEGIN END", "uuid"),
        ("DECLARE a record; BEGIN END", "record"),
        ("BEGIN a := b::text; END", "text"),
        ("BEGIN a := max(b); END", "max"),
        ("BEGIN a := CAST(b AS bigint); END", "CAST"),
        ("BEGIN a := b = c; END", "="),
        ("BEGIN a := b - 1; END", "-"),
        ("BEGIN a := b || 'it''s'; END", "||"),
        ("BEGIN PERFORM FROM pg_class; END", "pg_class"),
        ("BEGIN INSERT INTO events VALUES (1); END", "events"),
    ] {
        assert_eq!(careless(body), [found], "{body}");
    }
    let careful = "DECLARE a bigint := 0; t pg_catalog.text; BEGIN
        -- A comment = nothing.
        IF a OPERATOR(pg_catalog.<>) -1 THEN a := coalesce(pg_catalog.max(b), 0)::bigint; END IF;
        GET DIAGNOSTICS a = ROW_COUNT;
        RAISE EXCEPTION USING ERRCODE = 'HW007', MESSAGE = 'a = b'; END";
    assert!(careless(careful).is_empty(), "{:?}", careless(careful));
}

struct Function<'a> {
    name: &'a str,
    definer: bool,
    sets_path: bool,
    body: &'a str,
}

impl Function<'_> {
    fn calls(&self, other: &Function<'_>) -> bool {
        self.name != other.name && self.body.contains(&format!("{{schema}}.{}(", other.name))
    }
}

fn functions(text: &str) -> Vec<Function<'_>> {
    let after = text.split("FUNCTION {schema}.").skip(1);
    let function = |text| {
        let mut parts = str::splitn(text, 3, "$highwater$");
        let (head, body) = (parts.next()?, parts.next()?);
        // Where it is only named, the next body belongs to something else.
        let (name, rest) = head.split_once('(').filter(|_| !head.contains(';'))?;
        let (definer, sets_path) = (rest.contains("SECURITY DEFINER"), rest.contains("SET search_path"));
        Some(Function { name, definer, sets_path, body })
    };
    after.filter_map(function).collect()
}

/// Names that are looked up where the caller says.
fn careless(body: &str) -> Vec<String> {
    let tokens = tokens(body);
    let at = |place: Option<usize>| place.and_then(|place| tokens.get(place)).map_or("", String::as_str);
    let mut declaring = false;
    let mut found = Vec::new();
    for (n, token) in tokens.iter().enumerate() {
        let (before, next) = (at(n.checked_sub(1)), at(Some(n + 1)));
        let is_name = token.starts_with(|c: char| c.is_alphabetic() || c == '{');
        let in_full = before == "." || next == "." && PLACES.contains(&token.as_str());
        match token.as_str() {
            "DECLARE" => declaring = true,
            "BEGIN" => declaring = false,
            _ => {}
        }
        let declared = declaring && matches!(at(n.checked_sub(2)), ";" | "DECLARE");
        let is_type = declared || before == "::";
        let is_table = before == "FROM" || before == "INTO" && at(n.checked_sub(2)) == "INSERT";
        let is_call = next == "(" && !WORDS.contains(&token.as_str());
        let wrong = match is_name {
            true => !in_full && (is_type && !TYPES.contains(&token.as_str()) || is_table || is_call),
            false => is_operator(token) && !in_full && !is_syntax(before, token, next),
        };
        if wrong {
            found.push(token.clone());
        }
    }
    found
}

fn is_operator(token: &str) -> bool {
    token.chars().all(|c| "+-*/<>=~!@#%^&|?".contains(c))
}

/// A sign of a number, all columns, or an assignment.
fn is_syntax(before: &str, token: &str, next: &str) -> bool {
    let number = next.starts_with(|c: char| c.is_ascii_digit());
    match token {
        "-" => number && matches!(before, ")" | "(" | "," | "="),
        "*" => before == "(",
        "=" => matches!(before, ":" | "ERRCODE" | "MESSAGE" | "HINT") || next == "ROW_COUNT",
        _ => false,
    }
}

/// Without comments and what stands in literals.
fn tokens(body: &str) -> Vec<String> {
    let lines = body.lines().map(|line| line.split("--").next().unwrap_or_default());
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    let mut tokens: Vec<String> = Vec::new();
    // Literals are every second part; a quote inside of one is a literal that begins where another ends.
    for (n, part) in text.split('\'').enumerate() {
        if n % 2 == 1 {
            tokens.push("''".to_owned());
            continue;
        }
        let kind = |c: char| match c {
            _ if c.is_alphanumeric() || "_{}".contains(c) => 1,
            ':' => 2,
            _ if is_operator(c.encode_utf8(&mut [0; 4])) => 3,
            _ => 0,
        };
        let mut last = 0;
        for c in part.chars() {
            match tokens.last_mut().filter(|_| last != 0 && kind(c) == last) {
                Some(token) => token.push(c),
                None if !c.is_whitespace() => tokens.push(c.to_string()),
                None => {}
            }
            last = if c.is_whitespace() { 0 } else { kind(c) };
        }
    }
    tokens
}
