//! Every statement of this crate, loaded in one place. One statement a file, in `sql/`.

use std::sync::LazyLock;

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

use crate::row::columns_read;
use crate::write::Columns;

macro_rules! statements {
    (events: $($name:ident),* $(,)?) => {
        $(
            /// As in the file of that name, with the columns of an event filled in.
            #[expect(non_upper_case_globals, reason = "they are named as the files are, and as in the other dialect")]
            pub(crate) static $name: LazyLock<SqlStr> = LazyLock::new(|| {
                let text = include_str!(concat!("../sql/", stringify!($name), ".sql"));
                // Safe: the text is ours.
                AssertSqlSafe(filled(text)).into_sql_str()
            });
        )*
    };
    ($($name:ident),* $(,)?) => {
        $(
            /// As in the file of that name.
            #[expect(non_upper_case_globals, reason = "they are named as the files are, and as in the other dialect")]
            pub(crate) const $name: &str = include_str!(concat!("../sql/", stringify!($name), ".sql"));
        )*
    };
}

/// A statement with what follows from the columns of an event: `{event}` as it is read, `{columns}` as it is stored, and `{own}`,
/// the parameters from `$3` on of those that are the event's own.
fn filled(text: &str) -> String {
    let own: Vec<String> = (3..Columns::NAMES.len()).map(|number| format!("${number}")).collect();
    text.replace("{event}", &columns_read())
        .replace("{columns}", &Columns::NAMES.join(", "))
        .replace("{own}", &own.join(", "))
}

/// How many rows go into one statement: powers of two, so that any number is made of few, and each is prepared once.
pub(crate) const ROWS: [usize; 8] = [128, 64, 32, 16, 8, 4, 2, 1];

/// A statement that inserts rows, for each number of [`ROWS`].
#[derive(Debug)]
pub(crate) struct Inserts([SqlStr; ROWS.len()]);

impl Inserts {
    pub(crate) fn new() -> Self {
        let row = format!("({})", ["?"; Columns::NAMES.len()].join(", "));
        let of =
            |rows: usize| include_str!("../sql/append.sql").replace("{rows}", &vec![row.as_str(); rows].join(", "));
        // Safe: the text is ours.
        Self(ROWS.map(|rows| AssertSqlSafe(filled(&of(rows))).into_sql_str()))
    }

    /// The statement for as many of so many rows as fit, and how many that are.
    pub(crate) fn for_some_of(&self, rows: usize) -> (SqlStr, usize) {
        let place = ROWS.iter().position(|some| *some <= rows).unwrap_or(ROWS.len() - 1);
        (self.0[place].clone(), ROWS[place])
    }
}

statements! {
    events: append_one,
    find_ids,
    read_all,
    read_all_of_kinds,
    read_all_of_types,
    read_stream_backwards,
    read_stream_backwards_filtered,
    read_stream_forwards,
    read_stream_forwards_filtered,
}

statements! {
    backup,
    begin,
    checkpoint,
    checkpoint_store_one,
    checkpoint_take_over,
    checkpoints,
    claim_file,
    commit,
    data_version,
    diagnose_file,
    diagnose_journal,
    diagnose_pages,
    diagnose_rows,
    diagnose_schema,
    diagnose_streams,
    diagnose_synchronous,
    events_count,
    fence_keep,
    fence_leader,
    fence_lock,
    fence_move,
    fence_opened,
    fence_remove,
    fence_reset,
    fence_set_up,
    fence_term,
    file,
    filling,
    filling_begin,
    filling_checkpoints,
    filling_clear,
    filling_close,
    filling_drop,
    filling_end,
    filling_found,
    filling_guard,
    filling_dead_letters,
    filling_open,
    filling_pauses,
    filling_requests,
    filling_restart,
    filling_unguard,
    head,
    heads,
    instance_enter,
    instance_leave,
    instances,
    instances_forget,
    known,
    layout,
    leader_enter,
    leader_remove,
    leaders,
    life,
    dead_letter,
    dead_letter_attempt,
    dead_letter_attempts,
    dead_letter_bury,
    dead_letter_discarded,
    dead_letter_failed,
    dead_letter_is_open,
    dead_letter_replayed,
    dead_letters,
    dead_letters_archive,
    dead_letters_archive_attempts,
    dead_letters_count,
    dead_letters_parking,
    dead_letters_purge,
    migrations,
    migrations_create,
    migrations_record,
    no_waiting,
    parked,
    pause,
    paused,
    report_remove,
    reports,
    reports_store,
    request,
    request_file,
    request_finish,
    requests_all_open,
    requests_open,
    requests_purge,
    requests_remove,
    resume,
    rollback,
    savepoint,
    savepoint_back,
    savepoint_release,
    schema_version_newest,
    still_open,
    streams,
    term_draw,
    wal,
    write_ahead_back,
}
