//! SQL is one statement a file, and what both dialects have is called the same in both.

use std::collections::BTreeSet;

use crate::source::names;

/// Why only one dialect has them, and which.
type Reasons = &'static [(&'static str, &'static [&'static str])];

const ONLY_POSTGRES: Reasons = &[
    ("functions in the database append, and one call stores a whole group", &["append_group", "append_new"]),
    (
        "several transactions write at once, so readers look who may still bring a number",
        &["basis", "head_up_to", "holders", "last_value", "open_writers", "probe", "settle", "settled_to"],
    ),
    ("a handler is handed the transaction itself, and may end it and begin another", &["fence_same"]),
    ("what can be seen may not be on the disk or a replica yet", &["until_durable"]),
    (
        "a server is restarted, recovers and is replaced, each time beginning a new life",
        &["server_identity", "life_begin"],
    ),
    (
        "leaders hold locks in a session of the server; on SQLite they lock files",
        &["evict", "instance_watch", "lead_release", "lead_session", "lead_sweep", "lock_holders", "neighbour_session"],
    ),
    (
        "a connection is a session with settings, perhaps behind a pooler",
        &[
            "asynchronous",
            "backend_pid",
            "backend_pid_later",
            "no_transaction",
            "session",
            "sessions_found",
            "watch_client",
        ],
    ),
    ("sessions lock what others wait for, and the server shows which", &["blockers", "checkpoint_holders"]),
    ("other processes are told of appends; on SQLite they look", &["notify"]),
    (
        "rows travel as arrays, many in one statement",
        &["checkpoint_store_many", "checkpoint_terms", "filling_attempts", "filling_records"],
    ),
    ("filling locks tables and sets the sequence", &["filling_lock", "filling_numbers", "filling_tables"]),
    (
        "the layout lives in a schema beside others, and may adopt a table of events that is there",
        &[
            "encoding_check",
            "migrations_lock",
            "migrations_wait",
            "plan",
            "plan_columns",
            "plan_versions",
            "schema_create",
            "validate",
        ],
    ),
    (
        "a server has settings, roles and neighbours that can be wrong",
        &[
            "diagnose_columns",
            "diagnose_connections",
            "diagnose_commits",
            "diagnose_constraints",
            "diagnose_database_age",
            "diagnose_growth",
            "diagnose_indexes",
            "diagnose_dead_letters",
            "diagnose_ping",
            "diagnose_rights",
            "diagnose_role",
            "diagnose_sequences",
            "diagnose_server",
            "diagnose_settings",
            "diagnose_slots",
            "diagnose_tables",
            "diagnose_timeouts",
            "diagnose_transactions",
        ],
    ),
];

const ONLY_SQLITE: Reasons = &[
    ("there are no functions: a statement is repeated for several rows", &["append"]),
    ("an upsert does not say whether the row is new, so that is asked before", &["known"]),
    (
        "transactions are begun and ended by hand, behind the gate",
        &["begin", "commit", "no_waiting", "rollback", "savepoint", "savepoint_back", "savepoint_release"],
    ),
    (
        "one statement cannot write two tables, which is one statement on PostgreSQL",
        &[
            "leader_enter",
            "leader_remove",
            "dead_letter_attempt",
            "dead_letters_archive_attempts",
            "report_remove",
            "requests_purge",
            "requests_remove",
            "term_draw",
        ],
    ),
    ("a transaction has no id, so it writes itself down and looks for that", &["fence_opened"]),
    ("triggers are dropped by name", &["filling_unguard"]),
    ("the database is a file", &["backup", "claim_file", "data_version", "file", "wal", "write_ahead_back"]),
    (
        "a file has pages and a journal that can be wrong",
        &[
            "diagnose_file",
            "diagnose_journal",
            "diagnose_pages",
            "diagnose_schema",
            "diagnose_streams",
            "diagnose_synchronous",
        ],
    ),
];

#[test]
fn statements_that_both_dialects_have_are_called_the_same() {
    let (postgres, sqlite) = (statements("highwater-postgres"), statements("highwater-sqlite"));
    assert_known("PostgreSQL", ONLY_POSTGRES, postgres.difference(&sqlite));
    assert_known("SQLite", ONLY_SQLITE, sqlite.difference(&postgres));
}

fn statements(package: &str) -> BTreeSet<String> {
    let files = names(&format!("crates/{package}/sql")).into_iter();
    files.map(|name| name.strip_suffix(".sql").expect("in sql/ there are statements only").to_owned()).collect()
}

fn assert_known<'a>(dialect: &str, known: Reasons, alone: impl Iterator<Item = &'a String>) {
    let known: BTreeSet<&str> = known.iter().flat_map(|(_, names)| *names).copied().collect();
    let alone: BTreeSet<&str> = alone.map(String::as_str).collect();
    let new: Vec<_> = alone.difference(&known).collect();
    assert!(new.is_empty(), "only {dialect} has {new:?}: give both the same name, or list why there is no other");
    let gone: Vec<_> = known.difference(&alone).collect();
    assert!(gone.is_empty(), "not only {dialect} has {gone:?} any more: take them off the list");
}
