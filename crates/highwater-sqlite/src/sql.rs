//! Every statement of this crate, loaded in one place. One statement a file, in `sql/`.

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

macro_rules! statements {
    ($($name:ident),* $(,)?) => {
        $(
            /// As in the file of that name.
            #[expect(non_upper_case_globals, reason = "they are named as the files are, and as in the other dialect")]
            pub(crate) const $name: &str = include_str!(concat!("../sql/", stringify!($name), ".sql"));
        )*
    };
}

/// How many rows go into one statement: powers of two, so that any number is made of few, and each is prepared once.
pub(crate) const ROWS: [usize; 8] = [128, 64, 32, 16, 8, 4, 2, 1];

/// A statement that inserts rows, for each number of [`ROWS`].
#[derive(Debug)]
pub(crate) struct Inserts([SqlStr; ROWS.len()]);

impl Inserts {
    /// The one for appends.
    pub(crate) fn append() -> Self {
        Self::new(include_str!("../sql/append.sql"))
    }

    /// The one for records that have their numbers.
    pub(crate) fn filling_records() -> Self {
        Self::new(include_str!("../sql/filling_records.sql"))
    }

    fn new(text: &str) -> Self {
        let one = text.trim_end();
        let (_, row) = one.rsplit_once('\n').expect("the statement ends with a line of parameters");
        // Safe: the text is ours.
        Self(ROWS.map(|rows| AssertSqlSafe(format!("{one}{}", format!(", {row}").repeat(rows - 1))).into_sql_str()))
    }

    /// The statement for as many of so many rows as fit, and how many that are.
    pub(crate) fn for_some_of(&self, rows: usize) -> (SqlStr, usize) {
        let place = ROWS.iter().position(|some| *some <= rows).unwrap_or(ROWS.len() - 1);
        (self.0[place].clone(), ROWS[place])
    }
}

statements! {
    append_one,
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
    fence_reset,
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
    filling_letters,
    filling_open,
    filling_pauses,
    filling_requests,
    filling_unguard,
    find_ids,
    head,
    heads,
    instance_enter,
    instance_leave,
    instances,
    instances_forget,
    known,
    layout,
    leader_enter,
    leaders,
    letter,
    letter_attempt,
    letter_attempts,
    letter_bury,
    letter_discarded,
    letter_failed,
    letter_is_open,
    letter_replayed,
    letters,
    letters_archive,
    letters_archive_attempts,
    letters_count,
    letters_parking,
    letters_purge,
    migrations,
    migrations_create,
    migrations_record,
    no_waiting,
    parked,
    pause,
    paused,
    read_all,
    read_all_of_types,
    read_stream_backwards,
    read_stream_forwards,
    reports,
    reports_store,
    request,
    request_file,
    request_finish,
    requests_all_open,
    requests_open,
    requests_purge,
    resume,
    rollback,
    savepoint,
    savepoint_back,
    savepoint_release,
    still_open,
    term_draw,
    wal,
}
