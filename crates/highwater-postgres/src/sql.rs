//! Every statement of this crate, loaded in one place. One statement a file, in `sql/`.

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

use crate::schema::SchemaName;

macro_rules! statements {
    ($($name:ident),* $(,)?) => {
        /// The statements, with the schema's name filled in.
        #[derive(Debug, Clone)]
        pub(crate) struct Sql {
            $(pub(crate) $name: SqlStr,)*
        }

        impl Sql {
            pub(crate) fn new(schema: &SchemaName) -> Self {
                // Safe: the text is ours, and the name is checked and quoted.
                let render = |text| AssertSqlSafe(schema.render(text)).into_sql_str();
                Self { $($name: render(include_str!(concat!("../sql/", stringify!($name), ".sql"))),)* }
            }
        }
    };
}

statements! {
    append_group,
    append_one,
    asynchronous,
    backend_pid,
    backend_pid_later,
    basis,
    checkpoint,
    checkpoint_store_many,
    checkpoint_store_one,
    checkpoint_take_over,
    checkpoint_terms,
    checkpoints,
    doctor_connections, doctor_constraints, doctor_database_age, doctor_growth, doctor_indexes, doctor_letters, doctor_ping, doctor_rights, doctor_role, doctor_sequences, doctor_server, doctor_settings, doctor_slots, doctor_subscribers, doctor_tables, doctor_transactions, events_count,
    fence_keep,
    fence_leader,
    fence_lock,
    fence_move,
    fence_reset,
    fence_term,
    evict,
    filling,
    filling_attempts,
    filling_begin,
    filling_checkpoints,
    filling_clear,
    filling_close,
    filling_drop,
    filling_end,
    filling_found,
    filling_guard,
    filling_letters,
    filling_lock,
    filling_numbers,
    filling_open,
    filling_pauses,
    filling_records,
    filling_requests,
    filling_tables,
    find_ids,
    head,
    head_up_to,
    heads,
    holders,
    incarnation,
    instance_enter,
    instance_leave,
    instance_watch,
    instances,
    instances_forget,
    last_value,
    layout,
    lead_release,
    lead_session,
    lead_sweep,
    leaders,
    letter,
    letter_attempts,
    letter_bury,
    letter_discarded,
    letter_failed,
    letter_is_open,
    letter_replayed,
    letters,
    letters_archive,
    letters_count,
    letters_parking,
    letters_purge,
    migrations,
    migrations_create,
    migrations_lock,
    migrations_oldest,
    migrations_record,
    neighbour_session,
    notify,
    open_writers,
    parked,
    pause,
    paused,
    plan,
    plan_columns,
    plan_versions,
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
    resume,
    schema_create,
    session,
    watch_client,
}
