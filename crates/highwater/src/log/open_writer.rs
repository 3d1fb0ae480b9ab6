//! A transaction that holds readers back.

use std::fmt;
use std::time::Duration;

use crate::explain::{Span, shown};

/// What to do about a commit that waits for a synchronous replica.
pub const START_REPLICA: &str = "start the synchronous replica that commits wait for, or change synchronous_standby_names; never \
                                 end a process whose commit waits for it, which would make the commit visible although no \
                                 replica has it";

/// A transaction that is open and may have drawn a number, so that readers wait for it. What the role may not see is
/// `None`. Shown, it is a name and everything that is known, in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenWriter {
    /// The transaction, as the backend calls it.
    pub transaction: String,
    /// The process of the server that runs it; none for a prepared transaction.
    pub pid: Option<i32>,
    /// The role it runs as.
    pub role: Option<String>,
    /// How long it has been open.
    pub age: Option<Duration>,
    /// The name its application gave itself.
    pub application_name: Option<String>,
    /// What it ran last, or for a prepared transaction its name.
    pub last_statement: Option<String>,
    /// It has written nothing so far, so it may only have looked at where the numbers stand. It may as well have drawn
    /// one, which cannot be told from outside: readers wait for it nevertheless.
    pub may_only_have_looked: bool,
    /// It is about to commit, and waits for a synchronous replica. Ending it would make what it has written visible although no
    /// replica has it.
    pub waits_for_replica: bool,
    /// Why something is missing, in a sentence; `None` when nothing is.
    pub hidden: Option<String>,
}

impl OpenWriter {
    /// A writer of which only the name is known.
    #[must_use]
    pub fn new(transaction: impl Into<String>) -> Self {
        Self {
            transaction: transaction.into(),
            pid: None,
            role: None,
            age: None,
            application_name: None,
            last_statement: None,
            may_only_have_looked: false,
            waits_for_replica: false,
            hidden: None,
        }
    }
}

/// All of them in a row.
pub(crate) fn named_writers(writers: &[OpenWriter]) -> String {
    writers.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// What to do about all of them. None is to be ended whose commit waits for a replica.
pub(crate) fn end_of_writers(writers: &[OpenWriter]) -> String {
    let ends = match writers {
        [_] => "have it committed or rolled back, or end its process",
        _ => "have them committed or rolled back, or end their processes",
    };
    match (writers.iter().any(|it| it.waits_for_replica), writers.iter().all(|it| it.waits_for_replica)) {
        (true, true) => START_REPLICA.to_owned(),
        (true, false) => format!("{START_REPLICA}; of the others, {ends}"),
        (false, _) => ends.to_owned(),
    }
}

impl fmt::Display for OpenWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let statement = self.last_statement.as_deref().filter(|_| self.pid.is_some());
        match (self.pid, &self.last_statement) {
            (Some(pid), _) => write!(f, "process {pid}")?,
            (None, Some(name)) => write!(f, "the prepared transaction {name:?}")?,
            (None, None) => write!(f, "transaction {}", self.transaction)?,
        }
        let named = |what: &str, name: &Option<String>| {
            name.as_deref().filter(|name| !name.is_empty()).map(|name| format!("{what} {name}"))
        };
        let looked = "it has written nothing so far and may only have looked";
        let facts = [
            named("role", &self.role),
            named("application", &self.application_name),
            self.age.map(|age| format!("open for {}", Span(age))),
            statement.map(|statement| format!("last statement: {}", shown(statement))),
            self.may_only_have_looked.then(|| looked.to_owned()),
            self.waits_for_replica.then(|| "its commit waits for a synchronous replica".to_owned()),
            self.hidden.clone(),
        ];
        let facts: Vec<String> = facts.into_iter().flatten().collect();
        if facts.is_empty() { Ok(()) } else { write!(f, " ({})", facts.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_whose_commit_waits_for_a_replica_says_so_and_is_never_to_be_ended() {
        let open = OpenWriter { pid: Some(98), ..OpenWriter::new("3/17") };
        let waits = OpenWriter { pid: Some(99), waits_for_replica: true, ..OpenWriter::new("4/18") };
        assert_eq!(waits.to_string(), "process 99 (its commit waits for a synchronous replica)");
        let alone = end_of_writers(std::slice::from_ref(&waits));
        assert!(alone.starts_with("start the synchronous replica") && alone.contains("never end a process"), "{alone}");
        assert!(!alone.contains("end their processes"), "{alone}");
        let both = end_of_writers(&[open.clone(), waits]);
        assert!(both.contains("never end a process") && both.contains("of the others, have them committed"), "{both}");
        assert_eq!(end_of_writers(std::slice::from_ref(&open)), "have it committed or rolled back, or end its process");
        assert!(end_of_writers(&[open.clone(), open]).ends_with("or end their processes"));
    }
}
