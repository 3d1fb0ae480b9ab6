//! The books: what the log says, and what the read models say, by plain SQL that knows nothing of the library.

use serde_json::json;

use crate::producer::Accepted;
use crate::{Database, DemoError, Value, sql};

/// One check: two numbers that must be the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Book {
    /// What is checked.
    pub name: &'static str,
    /// What it must be, by the log or by what customers were told.
    pub expected: i64,
    /// What it is.
    pub found: i64,
}

impl Book {
    /// Whether they are the same.
    #[must_use]
    pub fn balances(&self) -> bool {
        self.expected == self.found
    }
}

/// What is checked, and how.
const BOOKS: [(&str, &str); 15] = [
    ("every accepted order is in the log, as it was placed", sql::BOOK_ACCEPTED),
    ("no event of an order that nobody placed", sql::BOOK_ACCEPTED_ONLY),
    ("every event is of an order that was paid once and shipped once", sql::BOOK_FULFILLED),
    ("every order's status counts each of its events once", sql::BOOK_ORDERS),
    ("no status without an order", sql::BOOK_ORDERS_ONLY),
    ("revenue is the sum of the log, in cents", sql::BOOK_REVENUE),
    ("each customer's revenue counts each payment once", sql::BOOK_CUSTOMERS),
    ("no revenue without a payment", sql::BOOK_CUSTOMERS_ONLY),
    ("events handled for the orders' status", sql::BOOK_HANDLED_ORDERS),
    ("payments handled for the revenue", sql::BOOK_HANDLED_REVENUE),
    ("every order has its e-mail, sent once", sql::BOOK_EMAILS),
    ("no e-mail without an order", sql::BOOK_EMAILS_ONLY),
    ("no dead letter is left", sql::BOOK_DEAD_LETTERS),
    ("every subscriber has reached the end of the log", sql::BOOK_CHECKPOINTS),
    ("nobody else has a checkpoint", sql::BOOK_CHECKPOINTS_ONLY),
];

/// How many orders are written down at once.
const AT_ONCE: usize = 1_000;

/// Writes down what customers were told is stored. To be called once, with their own list: what is in the log must not have
/// a say in it.
pub(crate) async fn write_down(database: &Database, accepted: impl Iterator<Item = Accepted>) -> Result<(), DemoError> {
    let sql = match database {
        Database::Postgres(_) => sql::ACCEPTED_ADD_POSTGRES,
        Database::Sqlite(_) => sql::ACCEPTED_ADD_SQLITE,
    };
    let mut accepted =
        accepted.map(|order| json!([order.order.id().to_string(), order.customer, order.cents])).peekable();
    while accepted.peek().is_some() {
        let list = json!(accepted.by_ref().take(AT_ONCE).collect::<Vec<_>>()).to_string();
        database.execute(sql, &[Value::Text(&list)]).await.map_err(DemoError::sql("write down what was accepted"))?;
    }
    Ok(())
}

/// Checks everything. `accepted`: orders of which customers were told that they are stored, all of them written down.
pub(crate) async fn check(database: &Database, accepted: u64) -> Result<Vec<Book>, DemoError> {
    let mut books = Vec::with_capacity(BOOKS.len());
    for (name, sql) in BOOKS {
        let values = [Value::Int(accepted as i64)];
        let values = if sql.contains("$1") { &values[..] } else { &[] };
        let rows: Vec<(i64, i64)> = database.rows(sql, values).await.map_err(DemoError::sql("check the books"))?;
        let (expected, found) = rows.first().copied().ok_or(sqlx::Error::RowNotFound).map_err(DemoError::sql(name))?;
        books.push(Book { name, expected, found });
    }
    Ok(books)
}

#[cfg(test)]
mod tests;
