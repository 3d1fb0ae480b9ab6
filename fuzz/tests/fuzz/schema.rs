//! Schema names: whatever is accepted stands in every statement as one identifier, and as nothing else.

#[path = "../../../crates/highwater-postgres/src/schema.rs"]
#[expect(dead_code, reason = "the file as it is there; not everything of it is used here")]
mod file;

use std::path::Path;

use file::SchemaName;
use highwater_fuzz::{Outcomes, Source, Token, tokens};

use crate::fuzz;

/// A name that is nowhere in our statements.
const PLAIN: &str = "plainschema";

/// Every statement and every migration.
fn statements() -> Vec<(String, String)> {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/highwater-postgres");
    let mut all = Vec::new();
    for folder in ["sql", "migrations"] {
        for file in std::fs::read_dir(crate_folder.join(folder)).unwrap() {
            let path = file.unwrap().path();
            all.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
        }
    }
    assert!(all.len() > 100, "they are where they were");
    all
}

/// Whether a text is the same SQL as another one, but for the name.
fn same(plain: &str, hostile: &str, name: &str) -> Result<(), String> {
    let (plain, hostile) = (tokens(plain)?, tokens(hostile)?);
    if plain.len() != hostile.len() {
        return Err(format!("{} tokens became {}", plain.len(), hostile.len()));
    }
    for (at, pair) in plain.iter().zip(&hostile).enumerate() {
        match pair {
            (Token::Quoted(before), Token::Quoted(after)) if before == PLAIN && after == name => {}
            (Token::Literal(before), Token::Literal(after)) if before.contains(PLAIN) => {
                let formats =
                    at >= 2 && plain[at - 1] == Token::Sign('(') && plain[at - 2] == Token::Word("format".into());
                if formats && name.contains('%') {
                    return Err(format!("format() takes a part of {after:?} for a placeholder"));
                }
                same(before, after, name)?;
            }
            (Token::Dollars(tag, before), Token::Dollars(other, after)) if tag == other => same(before, after, name)?,
            (before, after) if before == after => {}
            (before, after) => return Err(format!("{before:?} became {after:?}")),
        }
    }
    Ok(())
}

/// Checks a way of putting names into statements.
fn check(name: &str, statements: &[(String, String)], render: impl Fn(&str, &str) -> String) -> Result<(), String> {
    for (file, statement) in statements {
        let (plain, hostile) = (render(PLAIN, statement), render(name, statement));
        same(&plain, &hostile, name).map_err(|why| format!("{name:?} in {file}: {why}"))?;
    }
    Ok(())
}

fn ours(name: &str, statement: &str) -> String {
    SchemaName::new(name).unwrap().render(statement)
}

#[test]
fn whatever_is_accepted_is_one_identifier_in_every_statement() {
    let statements = statements();
    let mut outcomes = Outcomes::default();
    fuzz!(400, |bytes: &[u8]| {
        let name = Source::new(bytes).text();
        let Ok(schema) = SchemaName::new(&name) else { return outcomes.add("refused") };
        assert!(schema.channel().len() <= 63 && name.len() <= 63 && !name.is_empty());
        if let Err(why) = check(&name, &statements, ours) {
            panic!("{why}");
        }
        outcomes.add(if name.contains(['"', '\'']) { "quoted quotes" } else { "accepted" });
    });
    outcomes.assert(40, &["refused", "accepted", "quoted quotes"]);
}

/// The check is worth something: ways that are wrong are caught, each by a few names.
#[test]
fn names_that_are_put_in_carelessly_are_caught() {
    type Render = fn(&str, &str) -> String;
    let careless: [(&str, Render); 4] = [
        ("unquoted", |name, sql| sql.replace("{schema_text}", name).replace("{schema}", name)),
        ("quotes not doubled", |name, sql| {
            let quoted = format!("\"{name}\"");
            sql.replace("{schema_text}", &quoted.replace('\'', "''")).replace("{schema}", &quoted)
        }),
        ("literals not escaped", |name, sql| {
            let quoted = format!("\"{}\"", name.replace('"', "\"\""));
            sql.replace("{schema_text}", &quoted).replace("{schema}", &quoted)
        }),
        ("filled in twice", |name, sql| {
            let quoted = format!("\"{}\"", name.replace('"', "\"\""));
            sql.replace("{schema}", &quoted).replace("{schema_text}", &quoted.replace('\'', "''"))
        }),
    ];
    let statements = statements();
    for (what, render) in careless {
        let mut caught = 0;
        highwater_fuzz::seeded(120, |bytes| {
            let name = Source::new(bytes).text();
            if SchemaName::new(&name).is_ok() {
                caught += usize::from(check(&name, &statements, render).is_err());
            }
        });
        let placeholder = check("{schema_text}", &statements, render).is_err();
        assert!(caught >= 2 || placeholder, "{what}: {caught}");
    }
}
