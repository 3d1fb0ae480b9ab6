//! One projection for several databases, written once.

/// Implements a [`TransactionalProjection`](crate::TransactionalProjection) for several transactions, written once.
///
/// Before `in` stands the name that the implementation has for its transaction, and in the brackets the types that it stands for.
/// The implementation is repeated for each of them, so its body is checked against each database: what one of them does not
/// understand is an error in the line that says so. SQL is sent as it stands; `$1`, `ON CONFLICT` and `CREATE TABLE IF NOT EXISTS`
/// are understood by SQLite and by PostgreSQL, and a column `bigint` holds an `i64` on both.
///
/// ```
/// # mod highwater_sqlite { pub type SqliteTx = highwater::MemoryTx; }
/// # pub struct PgTx;
/// # impl PgTx { fn get(&self, _: &str) -> Option<serde_json::Value> { None } fn put(&mut self, _: &str, _: i64) {} }
/// use highwater::prelude::*;
/// use highwater_sqlite::SqliteTx;
/// # enum Order { Placed { cents: i64 } }
///
/// struct Revenue;
///
/// highwater::for_each_tx! { Tx in [SqliteTx, PgTx];
///     impl TransactionalProjection<Order, Tx> for Revenue {
///         fn subscriber_id(&self) -> &str { "projection:revenue" }
///         async fn apply(&self, tx: &mut Tx, event: &Event<Order>) -> Result<(), BoxError> {
///             let Order::Placed { cents } = event.data;
///             let before = tx.get("revenue").and_then(|value| value.as_i64()).unwrap_or(0);
///             tx.put("revenue", before + cents);
///             Ok(())
///         }
///     }
/// }
///
/// fn is_one<Tx: Send>(_: impl TransactionalProjection<Order, Tx>) {}
/// is_one::<SqliteTx>(Revenue);
/// is_one::<PgTx>(Revenue);
/// ```
///
/// Anything that names the transaction may stand there as well, such as a function that several projections call with `tx`: written
/// in a trait that is implemented for each.
#[macro_export]
macro_rules! for_each_tx {
    ($name:ident in [$($tx:ty),+ $(,)?]; $($item:tt)+) => {
        $crate::for_each_tx! { @each $name [$($tx),+] { $($item)+ } }
    };
    (@each $name:ident [$($tx:ty),+] $items:tt) => {
        $($crate::for_each_tx! { @one $name $tx, $items })+
    };
    (@one $name:ident $tx:ty, { $($item:tt)+ }) => {
        const _: () = {
            type $name = $tx;
            $($item)+
        };
    };
}
