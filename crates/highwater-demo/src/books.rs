//! The books: what the log says, and what the read models say, by plain SQL that knows nothing of the library.

use crate::{DemoError, Desk, Value, sql};

/// One check: two numbers that must be the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Book {
    /// What is checked.
    pub name: &'static str,
    /// What it must be, by the log.
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
const BOOKS: [(&str, &str); 11] = [
    ("every accepted order is in the log", sql::BOOK_ACCEPTED),
    ("every order was paid once and shipped once", sql::BOOK_FULFILLED),
    ("every order's status counts each of its events once", sql::BOOK_ORDERS),
    ("no status without an order", sql::BOOK_ORDERS_ONLY),
    ("revenue is the sum of the log, in cents", sql::BOOK_REVENUE),
    ("each customer's revenue counts each payment once", sql::BOOK_CUSTOMERS),
    ("events handled by the two projections", sql::BOOK_HANDLED),
    ("every order has its e-mail, sent once", sql::BOOK_EMAILS),
    ("no e-mail without an order", sql::BOOK_EMAILS_ONLY),
    ("no dead letter is left", sql::BOOK_LETTERS),
    ("every subscriber has reached the end of the log", sql::BOOK_CHECKPOINTS),
];

/// Checks everything. `accepted`: orders of which customers were told that they are stored.
pub(crate) async fn check(desk: &Desk, accepted: u64) -> Result<Vec<Book>, DemoError> {
    let mut books = Vec::with_capacity(BOOKS.len());
    for (name, sql) in BOOKS {
        let values = [Value::Int(accepted as i64)];
        let values = if sql.contains("$1") { &values[..] } else { &[] };
        let rows: Vec<(i64, i64)> = desk.rows(sql, values).await.map_err(DemoError::sql("check the books"))?;
        let (expected, found) = rows.first().copied().ok_or(sqlx::Error::RowNotFound).map_err(DemoError::sql(name))?;
        books.push(Book { name, expected, found });
    }
    Ok(books)
}

#[cfg(test)]
mod tests;
