//! Whether a projection makes tables. It tells one whose tables are missing from one that has none.

use std::cell::Cell;

tokio::task_local! {
    static MADE: Cell<bool>;
}

/// Calls a projection's `setup`, and tells whether it is the projection's own.
pub(crate) async fn making_tables<E>(setup: impl Future<Output = Result<(), E>>) -> Result<bool, E> {
    let called = async {
        setup.await?;
        Ok(MADE.with(Cell::get))
    };
    MADE.scope(Cell::new(true), called).await
}

/// What `setup` does by default. Called otherwise, nothing is to be told.
pub(super) fn none_are_made() {
    let _uncalled = MADE.try_with(|made| made.set(false));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BoxError, Event, TransactionalProjection};

    struct Plain;

    impl TransactionalProjection<(), ()> for Plain {
        fn subscriber_id(&self) -> &str {
            "projection:plain"
        }

        async fn apply(&self, (): &mut (), _: &Event<()>) -> Result<(), BoxError> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_setup_by_default_makes_nothing_and_can_be_called_anywhere() {
        Plain.setup(&mut ()).await.unwrap();
        assert!(!making_tables(Plain.setup(&mut ())).await.unwrap());
        assert!(making_tables(std::future::ready(Ok::<_, BoxError>(()))).await.unwrap());
        let refused = async { Err(BoxError::from("no room")) };
        assert!(making_tables(refused).await.is_err());
    }
}
