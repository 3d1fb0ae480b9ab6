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

/// How many events go into one statement: powers of two, so that any number is made of few, and each is prepared once.
pub(crate) const APPEND_ROWS: [usize; 8] = [128, 64, 32, 16, 8, 4, 2, 1];

/// The statement that inserts events, for each number of [`APPEND_ROWS`].
#[derive(Debug)]
pub(crate) struct Appends([SqlStr; APPEND_ROWS.len()]);

impl Appends {
    pub(crate) fn new() -> Self {
        let one = include_str!("../sql/append.sql").trim_end();
        let (_, row) = one.rsplit_once('\n').expect("the statement ends with a line of parameters");
        // Safe: the text is ours.
        Self(
            APPEND_ROWS
                .map(|rows| AssertSqlSafe(format!("{one}{}", format!(", {row}").repeat(rows - 1))).into_sql_str()),
        )
    }

    /// The statement for as many of so many events as fit, and how many that are.
    pub(crate) fn for_some_of(&self, events: usize) -> (SqlStr, usize) {
        let place = APPEND_ROWS.iter().position(|rows| *rows <= events).unwrap_or(APPEND_ROWS.len() - 1);
        (self.0[place].clone(), APPEND_ROWS[place])
    }
}

statements! {
    application_id,
    backup,
    begin,
    checkpoint,
    checkpoint_store,
    checkpoint_take_over,
    checkpoints,
    claim_file,
    commit,
    data_version,
    fence_keep,
    fence_leader,
    fence_lock,
    fence_move,
    fence_opened,
    fence_reset,
    fence_term,
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
    parked,
    pause,
    paused,
    read_all,
    read_all_of_types,
    read_stream_backwards,
    read_stream_forwards,
    request,
    request_file,
    request_finish,
    requests_open,
    requests_purge,
    resume,
    rollback,
    savepoint,
    savepoint_back,
    savepoint_release,
    term_draw,
    wal,
}
