//! Arguments that cannot be used: one sentence, as for every other failure, and no password.

use std::process::ExitCode;

use clap::error::{Error, ErrorKind};
use clap::{Command, CommandFactory as _};

use crate::arguments::{Cli, SECRET_BYTES_MIN};
use crate::database;
use crate::failure::Failure;

/// Prints the help that was asked for, or says what is wrong.
pub(crate) fn end(error: &Error) -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    let help = !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if !help {
        let failure = Failure::usage(sentence(&error.render().to_string(), &arguments, &Cli::command()));
        return failure.end(&secrets(&arguments));
    }
    match error.print() {
        Ok(()) => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1)),
        Err(error) => Failure::from(error).end(&[]),
    }
}

fn secrets(arguments: &[String]) -> Vec<String> {
    let passwords = arguments.iter().flat_map(|argument| database::passwords(argument));
    passwords.filter(|password| password.len() >= SECRET_BYTES_MIN).collect()
}

/// What clap says in several paragraphs.
fn sentence(text: &str, arguments: &[String], command: &Command) -> String {
    let mut text = text.strip_prefix("error: ").unwrap_or(text).to_owned();
    for argument in arguments {
        let value = argument.split_once('=').map(|(_, value)| value);
        for shown in std::iter::once(argument.as_str()).chain(value).filter(|shown| shown.contains("://")) {
            text = text.replace(shown, &database::redacted(shown));
        }
    }
    let mut paragraphs = text.split("\n\n");
    let what: Vec<&str> = paragraphs.next().unwrap_or_default().lines().map(str::trim).collect();
    let mut sentence = what.join(" ");
    if let Some(tip) = paragraphs.find_map(|part| part.trim().strip_prefix("tip: ")) {
        let first = tip.lines().next().unwrap_or_default();
        sentence.push_str(&format!("; {first}"));
    }
    if sentence.contains("://") {
        sentence.push_str("; an event store is named with --database URL");
    }
    format!("{sentence}; see `{} --help`", called(arguments, command))
}

/// The command with its parts, without anything that was given to it.
fn called(arguments: &[String], mut command: &Command) -> String {
    let mut name = vec!["highwater"];
    for argument in arguments {
        if let Some(inner) = command.find_subcommand(argument) {
            name.push(argument);
            command = inner;
        }
    }
    name.join(" ")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn said(arguments: &[&str]) -> String {
        let error = Cli::try_parse_from(std::iter::once(&"highwater").chain(arguments)).unwrap_err();
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        sentence(&error.render().to_string(), &arguments, &Cli::command())
    }

    #[test]
    fn passwords_are_not_repeated() {
        for arguments in [
            &["init", "postgres://app:s3cretpw@db/shop"][..],
            &["init", "postgres://db/shop?password=x7"],
            &["append", "postgres://app:s3cretpw@db/shop", "X"],
            &["append", "postgres://app:s3cretpw@db/shop?password=x7", "X"],
            &["init", "--database=postgres://app:s3cretpw@db/shop", "--databse=postgres://app:s3cretpw@db/shop"],
            &["top", "--interval", "postgres://app:s3cretpw@db/shop"],
        ] {
            let said = said(arguments);
            assert!(!said.contains("s3cretpw") && !said.contains("x7"), "{said}");
            assert!(!said.contains('\n') && said.contains("--help`"), "{said}");
        }
    }

    #[test]
    fn the_part_that_matters_is_said_in_one_line() {
        assert_eq!(
            said(&["append", "order/17"]),
            "the following required arguments were not provided: <TYPE>; see `highwater append --help`"
        );
        let dead_letters = said(&["dead-letters", "reply"]);
        assert!(dead_letters.ends_with("see `highwater dead-letters --help`"), "{dead_letters}");
        let stream = said(&["read", "postgres://db/shop"]);
        assert!(stream.contains("--database"), "{stream}");
    }
}
