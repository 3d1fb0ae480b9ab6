//! The loop that a consumer is: messages of a category, and where it was as a message of a stream of its own.

use std::time::Duration;

use driver::{Delivery, Error, POLL, Placed, Settings, Sink};
use sqlx::PgPool;
use sqlx::types::Json;
use uuid::Uuid;

use crate::CATEGORY;

/// As Eventide's consumer has them.
const POLL_DOCUMENTED: Duration = Duration::from_millis(100);
const POSITION_EVERY: usize = 100;
const POSITION_EVERY_FASTEST: usize = 1_000;

const READ: &str = "SELECT data, global_position FROM get_category_messages($1, $2, 1000)";
const LAST: &str = "SELECT (data::jsonb ->> 'position')::bigint FROM get_last_stream_message($1)";
const STORE: &str = "SELECT write_message($1, $2, 'Recorded', $3)";

pub(crate) async fn run(
    pool: &PgPool,
    id: &str,
    delivery: Delivery,
    settings: &Settings,
    sink: &Sink,
) -> Result<(), Error> {
    let (poll, every) = match (delivery, settings.is_fastest()) {
        (Delivery::Each, fastest) => (if fastest { POLL } else { POLL_DOCUMENTED }, 1),
        (_, true) => (POLL, POSITION_EVERY_FASTEST),
        (_, false) => (POLL_DOCUMENTED, POSITION_EVERY),
    };
    let positions = format!("{CATEGORY}:position-{id}");
    let stored: Option<i64> = sqlx::query_scalar(LAST).bind(&positions).fetch_optional(pool).await?;
    let (mut next, mut unstored) = (stored.map_or(1, |position| position + 1), 0);
    loop {
        let messages: Vec<(String, i64)> = sqlx::query_as(READ).bind(CATEGORY).bind(next).fetch_all(pool).await?;
        for (data, position) in &messages {
            let placed: Placed = serde_json::from_str(data)?;
            sink.handle(&placed, Some(position.cast_unsigned()));
            next = position + 1;
            unstored += 1;
            if unstored >= every {
                let at = Json(serde_json::json!({ "position": position }));
                let store = sqlx::query(STORE).bind(Uuid::new_v4().to_string()).bind(&positions).bind(at);
                // One that is rolled back is stored with the next message.
                match store.execute(pool).await {
                    Ok(_) => unstored = 0,
                    Err(sqlx::Error::Database(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        if messages.is_empty() {
            tokio::time::sleep(poll).await;
        }
    }
}
