//! Makes a test of every answer in `docs/cookbook.md`.
//!
//! What stands in the blocks before the first question is there for all of them. The blocks `rust` of an answer are the body of an
//! asynchronous function that is given a `store`, a `bus` and a `folder`; with `rust postgres` they are those of PostgreSQL. A
//! block `sql` is run before.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

#[derive(Default)]
struct Answer {
    question: String,
    line: usize,
    rust: String,
    sql: String,
    postgres: bool,
}

fn main() {
    // Asked when it runs: clones that share a target folder share this program.
    let here = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let cookbook = Path::new(&here).join("../../docs/cookbook.md");
    println!("cargo::rerun-if-changed={}", cookbook.display());
    let text = fs::read_to_string(&cookbook).unwrap_or_else(|error| panic!("{}: {error}", cookbook.display()));
    let mut answers = answers(&text);
    let common = answers.remove(0);
    let tests: String = answers.iter().map(test).collect();
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("cookbook.rs");
    fs::write(out, format!("{}\n{tests}", common.rust)).expect("OUT_DIR can be written to");
}

/// The answers, in order. The first one is what precedes the first question.
fn answers(text: &str) -> Vec<Answer> {
    let mut answers = vec![Answer::default()];
    let mut block = None;
    for (line, text) in text.lines().enumerate() {
        let answer = answers.last_mut().expect("there is one at least");
        match (block, text.strip_prefix("```")) {
            (None, Some(kind)) => {
                answer.postgres |= kind == "rust postgres";
                block = Some(kind);
            }
            (Some(_), Some(_)) => block = None,
            (Some("sql"), None) => answer.sql += &format!("{text}\n"),
            (Some("rust" | "rust postgres"), None) => answer.rust += &format!("{text}\n"),
            (None, None) if text.starts_with("### ") => {
                let question = text.trim_start_matches("### ").to_owned();
                answers.push(Answer { question, line: line + 1, ..Answer::default() });
            }
            _ => {}
        }
    }
    answers
}

fn test(answer: &Answer) -> String {
    let Answer { question, line, rust, sql, postgres } = answer;
    assert!(!rust.is_empty(), "docs/cookbook.md:{line}: {question} is answered without code");
    let letters = question.to_lowercase().replace(|letter: char| !letter.is_ascii_alphanumeric(), " ");
    let name = letters.split_whitespace().collect::<Vec<_>>().join("_");
    let (store, bus, ground) = match postgres {
        true => ("PgEventStore", "PgEventBus", "postgres"),
        false => ("SqliteEventStore", "SqliteEventBus", "sqlite"),
    };
    let mut test = format!("/// docs/cookbook.md:{line}\n#[tokio::test(flavor = \"multi_thread\")]\n");
    let _ = write!(
        test,
        "async fn {name}() -> Result<(), BoxError> {{
async fn answer(store: {store}, bus: {bus}, folder: &Path) -> Result<(), BoxError> {{
{rust}
Ok(())
}}
let ground = Ground::new({name:?})?;
let store = ground.{ground}({sql:?}).await?;
let bus = {bus}::new(store.clone());
answer(store, bus.clone(), &ground.folder).await?;
Ok(bus.shutdown().await?)
}}\n\n"
    );
    test
}
